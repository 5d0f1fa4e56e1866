"""Hold what admins allow: modes, the kill switch, and the limits on what Mirage may spend."""
