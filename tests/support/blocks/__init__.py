"""Tiny blocks, and a Slurm of shell scripts that runs them."""
