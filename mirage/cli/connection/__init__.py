"""How commands reach the running service: its address, HTTP requests with a credential, and
finding a chain by name.
"""
