"""The shadow report: which hand-overs, their tables, the document, its words and its page."""
