"""Reaches Slurm through the commands on this host."""
