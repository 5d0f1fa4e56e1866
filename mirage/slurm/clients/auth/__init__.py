"""Identifies callers by a credential of MUNGE or of Slurm's own socket, or by a Slurm JWT."""
