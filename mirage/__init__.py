"""Mirage keeps long jobs alive on Slurm by timing when each follow-on job becomes eligible."""
