"""Presents the command tree to shells and manuals: completion and manual pages."""
