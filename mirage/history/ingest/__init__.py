"""Reads jobs and nodes from Slurm and from trace files into the stored history."""
