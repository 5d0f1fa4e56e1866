"""Slurm: what is said to it and read from it, as text and values; and `clients`, which do so."""
