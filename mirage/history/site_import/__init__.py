"""Convert what Slurm reports about a site into the simulator's parameters."""
