"""JSON Web Tokens that say what a test wants; nobody verifies them but Slurm."""

import base64
import json


def jwt(user: str, expires: float | None = None, **claims: object) -> str:
    """A token of the form of `scontrol token`'s, with a signature of nothing."""
    told = {"sun": user, **claims} | ({} if expires is None else {"exp": int(expires)})
    parts = [{"alg": "HS256", "typ": "JWT"}, told]
    return ".".join([*(_part(part) for part in parts), "c2lnbmF0dXJl"])


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
