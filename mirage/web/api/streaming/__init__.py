"""Long answers: the feed of changes, whole lists as files, and clients that read slowly."""
