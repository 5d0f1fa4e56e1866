"""Reach Slurm through the commands on this host."""
