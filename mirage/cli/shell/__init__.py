"""Describes the commands to shells, for completion, and in manual pages."""
