"""A log replayed on a simulated cluster, and a cluster file fitted to a log."""
