"""`mirage report`: what Mirage would have saved a site, as JSON, terminal tables and a page."""
