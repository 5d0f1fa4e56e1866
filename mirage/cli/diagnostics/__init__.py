"""`mirage doctor`: checks of the host, the service, Slurm permissions and slurmrestd."""
