"""JSON Web Tokens with the claims that a test wants; only Slurm would verify them."""

import base64
import json


def build_jwt(user: str, expires: float | None = None, **claims: object) -> str:
    """Build a token in the form of `scontrol token`, with a false signature."""
    payload = {"sun": user, **claims} | ({} if expires is None else {"exp": int(expires)})
    parts = [{"alg": "HS256", "typ": "JWT"}, payload]
    return ".".join([*(_part(part) for part in parts), "c2lnbmF0dXJl"])


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
