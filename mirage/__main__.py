"""python -m mirage, and the `mirage` command."""
