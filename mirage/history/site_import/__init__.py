"""Converts Slurm's answers about a site into the simulator's parameters."""
