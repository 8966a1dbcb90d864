"""Faster matmul and dropout on a CPU."""
