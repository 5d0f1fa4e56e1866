"""Read the queue, the nodes and accounting of the live Slurm, and store them."""
