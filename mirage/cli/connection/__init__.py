"""Connects commands to the package mirage_slurm, which calls the service; suggests on Tab."""
