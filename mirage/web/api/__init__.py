"""HTTP in, HTTP out; no rules here."""
