"""Jobs of the past: formats of logs, cluster files, workloads made from both, and their ingest."""
