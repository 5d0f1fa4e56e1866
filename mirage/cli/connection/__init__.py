"""Connects commands to the running service.

The package finds the service's address, sends HTTP requests with a credential, and finds a
chain by name.
"""
