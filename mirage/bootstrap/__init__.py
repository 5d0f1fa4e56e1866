"""The composition root: settings become objects, these the running service, and systemd is told."""
