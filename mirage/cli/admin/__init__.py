"""Commands for whoever runs the service: serve, database, mode, configuration, tokens, notices,
ingest and cluster files.
"""
