"""Long work in blocks: each block is files that are made once, here or by jobs of Slurm."""
