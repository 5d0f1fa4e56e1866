"""Pages for people: HTML made here of what is stored, with a stylesheet and one small script."""
