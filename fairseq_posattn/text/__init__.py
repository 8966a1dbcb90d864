"""Text, from lines to words, subwords and vocabularies."""
