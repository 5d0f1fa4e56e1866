"""What studies need of episode tables: their plan, spans of time, and the twin's answers."""
