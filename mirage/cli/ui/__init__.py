"""Communicates with the terminal: progress, notes, signals, and the table of a log's rows."""
