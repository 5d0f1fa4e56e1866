"""Connects commands to the running service.

The package finds the service's address, sends HTTP requests with a credential, finds a chain by
name, and suggests chains and partitions on Tab.
"""
