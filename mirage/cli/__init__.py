"""The commands of mirage, one group a file."""
