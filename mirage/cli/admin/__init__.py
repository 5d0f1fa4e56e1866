"""Commands of the admin who runs the service: serve, database, mode, configuration, tokens,
notices, ingest, cluster files and manual pages.
"""
