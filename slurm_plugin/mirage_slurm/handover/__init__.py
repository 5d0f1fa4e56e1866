"""The hand-over between running links: for programs in Python and, by verbs, for shell scripts."""
