"""Bring what Slurm and trace files say of jobs and nodes into the stored history."""
