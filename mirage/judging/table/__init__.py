"""The episode table, what it says of itself, and its files."""
