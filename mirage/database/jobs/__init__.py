"""Jobs and the queue: history, snapshots, sums of waits, and the queue as last seen."""
