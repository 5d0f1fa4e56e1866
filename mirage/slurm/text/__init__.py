"""Notations that Slurm uses in every answer: delimited rows, host lists, dependency lists, GRES,
pending reasons, error texts.
"""
