"""Reads secrets from files, and removes them from messages."""

import os
from pathlib import Path

from mirage.domain.sanitize import escape_unprintable
from mirage.errors import DeliveryError
from mirage.slurm.clients.host_accounts import is_private

_MAX_LENGTH = 200
"""The most characters of a message from elsewhere that the log and the database keep."""


def read_secret(path: Path) -> str:
    """Return the first line of a file. Raises DeliveryError if other users may read the file."""
    try:
        with path.open(encoding="utf-8") as file:
            if not is_private(os.fstat(file.fileno())):
                raise DeliveryError(f"others may read {path}: `chmod 600` it")
            secret = file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DeliveryError(f"{path} cannot be read: {reason}") from None
    if not secret:
        raise DeliveryError(f"{path} is empty: write the secret on its first line")
    return secret


def redact_secrets(message: object, *secrets: str) -> str:
    """Return the message as one line without the secrets, for the log and the database."""
    text = str(message)
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return escape_unprintable(" ".join(text.split()))[:_MAX_LENGTH]
