"""Reaches Slurm through slurmrestd."""
