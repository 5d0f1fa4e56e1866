"""Who sends a request: session cookies, and users whom the kernel names at the other end of a
connection.
"""
