"""The version of mirage-slurm. `make release` writes it."""

VERSION = "0.1.0"
