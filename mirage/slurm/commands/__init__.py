"""Slurm's command-line tools: the arguments that each is called with, and parsers of what it
prints.
"""
