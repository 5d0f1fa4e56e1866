"""A Slurm-like simulator: no text, no database, no clock of its own."""
