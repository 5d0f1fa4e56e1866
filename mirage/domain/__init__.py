"""The vocabulary: values and their rules. Standard library and numpy only."""
