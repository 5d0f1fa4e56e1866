"""Reaches Slurm in different ways behind ports.Cluster."""
