"""Durations as Slurm writes them. Standard library, Python 3.6."""

DIGITS = frozenset("0123456789")
MAX_SECONDS = 3650 * 86400  # what the service accepts


def parse_duration(text):
    """Return the seconds of M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; None for any other text, and for
    more than ten years."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":") if not dash else [days] + rest.split(":")
    fields = [int(part) for part in parts if 0 < len(part) < 9 and DIGITS.issuperset(part)]
    if len(fields) != len(parts) or len(fields) > (4 if dash else 3):
        return None
    if dash:
        units = (86400, 3600, 60, 1)
    else:
        units = (3600, 60, 1) if len(fields) == 3 else (60, 1)
    seconds = sum(unit * field for unit, field in zip(units, fields))
    return seconds if seconds <= MAX_SECONDS else None
