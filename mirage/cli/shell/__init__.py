"""What shells and manuals show of the command tree: completion and manual pages."""
