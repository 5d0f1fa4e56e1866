"""Identify callers by MUNGE or a Slurm JWT, and submit as a user through sudo."""
