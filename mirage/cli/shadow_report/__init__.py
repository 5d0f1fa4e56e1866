"""`mirage report`: what Mirage would have saved a site, asked for and shown."""
