"""Slurm's language: pure text to values and back. Nothing here runs a command."""
