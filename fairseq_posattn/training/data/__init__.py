"""What stock fairseq lacks in reading data."""
