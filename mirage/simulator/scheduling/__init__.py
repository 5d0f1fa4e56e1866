"""Slurm's scheduling passes: the main pass, backfill by number, backfill over node bitmaps."""
