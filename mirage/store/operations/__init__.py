"""How Mirage runs on a cluster: modes, worker lease, kill switches, limit overrides, telemetry
and stored reports.
"""
