"""The shadow report, independent of terminal and command line."""
