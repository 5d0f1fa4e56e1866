"""The composition root: settings become objects, their files are checked, and systemd is told."""
