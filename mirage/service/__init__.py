"""The composition root: builds the service from the settings, runs it, and informs systemd."""
