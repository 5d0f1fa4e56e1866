"""Clients that reach Slurm. Each implements `domain.ports.Cluster`: by commands, by slurmrestd."""
