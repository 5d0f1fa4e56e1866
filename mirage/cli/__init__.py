"""The command line of Mirage. Each command, or group of commands, has one module."""
