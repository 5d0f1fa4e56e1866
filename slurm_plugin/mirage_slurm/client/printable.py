"""Text of users and of Slurm, safe for a terminal and for one line of a log. Standard library, Python 3.6.

mirage/domain/sanitize.py has the same rule for the service, whose core loads no module of the client:
tests/unit/domain/test_sanitize.py asks both the same.
"""

import unicodedata

DIRECTION_CHANGES = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that change the direction of writing, and so make a name look like another."""


def escape_unprintable(text):
    """Return `text` with escapes in the place of all characters that end a line, or that a terminal obeys."""
    return "".join(c if _is_harmless(c) else ascii(c)[1:-1] for c in text)


def _is_harmless(character):
    return character not in DIRECTION_CHANGES and unicodedata.category(character) not in (
        "Cc", "Cs", "Zl", "Zp")  # fmt: skip
