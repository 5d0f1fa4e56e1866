"""Where the service is, and who asks it: what commands and completion need before they call it.

On a unix socket the kernel says who calls; elsewhere munge vouches, or the token of a file.
"""

import hashlib
import os
import socket
from pathlib import Path

from mirage.cluster import munge
from mirage.errors import InputError
from mirage.installed import DEFAULT_PORT, own_state_dir

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
CLIENT_CONFIG = "/etc/mirage/client.conf"
"""Shared with the wrapped sbatch (slurm_plugin/README.md): a line `url = ...`."""

PREFIX = "/api/v1"
UNIX = "unix://"


def service_url(given: str | None) -> str:
    """What was given, MIRAGE_URL, the user's own service where one runs, the client's configuration
    file, or this host."""
    chosen = given or os.environ.get("MIRAGE_URL") or _own() or _configured() or DEFAULT_URL
    if not chosen.startswith(("http://", "https://", f"{UNIX}/")):
        raise InputError(f"the service's URL {chosen!r} is no http address")
    return chosen.rstrip("/")


def _own() -> str | None:
    """The socket of `mirage serve --user`, where it is the user's and somebody listens."""
    path = own_state_dir() / "socket"
    try:
        if path.lstat().st_uid != os.geteuid():
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
    except OSError:
        return None
    return f"{UNIX}{path}"


def _configured() -> str | None:
    path = Path(os.environ.get("MIRAGE_CLIENT_CONF") or CLIENT_CONFIG)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return next((v.strip().strip("\"'") for k, eq, v in pairs if eq and k.strip() == "url"), None)


def credential(method: str, target: str, body: bytes = b"") -> dict[str, str]:
    """MUNGE's for this request; or the token of the file that MIRAGE_TOKEN_FILE names."""
    named = os.environ.get("MIRAGE_TOKEN_FILE")
    if named:
        return {"Authorization": f"Bearer {_token(Path(named))}"}
    held = f"{method} {target} {hashlib.sha256(body).hexdigest()}"
    return {"Authorization": f"MUNGE {munge.credential(held)}"}


def _token(path: Path) -> str:
    """Of a file that nobody else may read. Raises InputError."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, encoding="ascii") as file:
            found = os.fstat(number)
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise InputError(f"{path} is not yours alone: `chmod 600` it")
            return file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"no token in {path}: {error}") from error
