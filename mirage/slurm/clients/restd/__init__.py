"""Reach Slurm through slurmrestd."""
