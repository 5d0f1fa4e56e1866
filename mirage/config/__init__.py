"""The configuration: settings with defaults and bounds, the TOML file and environment that set
them, and default paths.
"""
