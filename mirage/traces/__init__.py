"""Workload files, and a seeded synthetic workload."""
