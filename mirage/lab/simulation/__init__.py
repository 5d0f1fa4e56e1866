"""A log replayed on a simulated cluster: the waits compared with the log's, and chains played among
its jobs."""
