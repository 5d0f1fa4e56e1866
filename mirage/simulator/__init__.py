"""A simulator of Slurm's scheduling. It reads no text and no database, and has no clock of its
own: its callers move its time forward."""
