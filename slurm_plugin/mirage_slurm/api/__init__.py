"""A chain from a Python program: `mirage_slurm.submit` and `mirage_slurm.Chain`. Standard library, Python 3.6."""
