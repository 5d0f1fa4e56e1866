"""Slurm, reached in different ways behind ports.Cluster."""
