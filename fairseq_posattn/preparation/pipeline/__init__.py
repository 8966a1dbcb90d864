"""What every preparation stands on: downloads, archives, stages, processes."""
