"""Identifies callers by a MUNGE credential or a Slurm JWT."""
