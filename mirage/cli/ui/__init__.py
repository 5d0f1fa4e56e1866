"""Output that commands share on the terminal: progress, notes, signals, and the table of a log's
rows."""
