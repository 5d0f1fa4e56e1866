"""Workloads for the simulator: replays of logged traces, load scaling, and synthetic jobs."""
