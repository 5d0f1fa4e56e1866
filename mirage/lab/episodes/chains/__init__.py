"""Simulate whole chains under a policy that moves their standbys."""
