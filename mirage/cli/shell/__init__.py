"""Describes the commands in manual pages."""
