"""Checks of an installation: its host, configuration and database, its Slurm, and the service."""
