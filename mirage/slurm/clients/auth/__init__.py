"""Identify callers by MUNGE or a Slurm JWT."""
