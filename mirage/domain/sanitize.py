"""Makes text of users and of Slurm safe for a terminal and for one line of a log.

The client has the same rule (slurm_plugin/mirage_slurm/client/printable.py); this core loads no
module of the client, since a checkout uses its own copy of it, which mirage.config finds. One test
asks both.
"""

import unicodedata

_DIRECTION_CHANGES = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that change the direction of writing, and so make a name look like another."""
_LINE_BREAKS = frozenset({"Zl", "Zp"})


def escape_unprintable(text: str, *, keep: str = "") -> str:
    """Return `text` with escapes in the place of all characters that end a line, or that a terminal
    obeys.

    `keep`: characters that are not escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _is_harmless(c) else _escape_character(c) for c in text)


def _is_harmless(character: str) -> bool:
    kind = unicodedata.category(character)
    return (
        character not in _DIRECTION_CHANGES
        and kind not in _LINE_BREAKS
        and kind not in {"Cc", "Cs"}
    )


def _escape_character(character: str) -> str:
    # No codec: Python reads a codec's module at its first use, which fails without descriptors.
    return ascii(character)[1:-1]
