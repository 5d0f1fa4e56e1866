"""Reads secrets from files, and removes them from messages."""

import os
from pathlib import Path

from mirage.domain.sanitize import escape_unprintable
from mirage.errors import DeliveryError

_LONGEST = 200
_OTHERS = 0o077


def read_secret(path: Path) -> str:
    """Return the first line of a file. Raises DeliveryError if other users may read the file."""
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise DeliveryError(f"others may read {path}: `chmod 600` it")
            found = file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DeliveryError(f"{path} cannot be read: {why}") from None
    if not found:
        raise DeliveryError(f"{path} is empty: write the secret on its first line")
    return found


def redact_secrets(said: object, *secrets: str) -> str:
    """Return the text as one line without the secrets, for the log and the database."""
    text = str(said)
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return escape_unprintable(" ".join(text.split()))[:_LONGEST]
