"""Stores how Mirage runs on a cluster.

That is modes, worker lease, kill switches, limit overrides, telemetry and stored reports.
"""
