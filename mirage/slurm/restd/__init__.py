"""slurmrestd's JSON: the bodies and queries that it is sent, and parsers of its answers."""
