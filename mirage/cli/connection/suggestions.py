"""Suggests values on Tab that are known at run time alone: chains, partitions, policies, models.

Typer calls these functions. The service has 0.2 s to answer, so that the prompt never hangs.
"""

import json
import os
import re
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import Any

import typer

from mirage.config.paths import get_models_dir
from mirage.config.policy_names import POLICY_NAMES
from mirage.shipped_files import load_client_module

rest = load_client_module("client.rest")

PATIENCE = "MIRAGE_COMPLETION_S"
"""The environment variable with the seconds that the service may take."""
_PATIENCE_S = 0.2

_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""The form of values that may be suggested, since zsh evaluates suggestions."""

_STATES = {"pause": {"active"}, "resume": {"paused"}, "cancel": {"active", "paused"}}
"""By command: the states of the chains that the command can change."""

_KNOWN_STATES = {"active", "paused", "finished", "cancelled", "failed"}


def suggest_chains(context: typer.Context) -> list[tuple[str, str]]:
    """Suggest the chains that the command can change, newest first."""
    states = _STATES.get(context.info_name or "", _KNOWN_STATES)
    return [
        (row["chain_id"], f"{row['state']}, {int(row['links_started'])} links begun")
        for row in fetch_rows("/chains", limit=500)
        if _is_harmless(row["chain_id"]) and row["state"] in states
    ]


def suggest_partitions() -> list[str]:
    """Suggest the partitions of the jobs that the service shows."""
    names = {row["partition"] for row in fetch_rows("/jobs", limit=200)}
    return sorted(filter(_is_harmless, names))


def suggest_policies() -> list[str]:
    return [*POLICY_NAMES, *suggest_models()]


def suggest_models() -> list[str]:
    """Suggest trained models as commands take them: models/NAME and models/NAME/VERSION."""
    models_folder = get_models_dir()
    versions = [
        card.parent.relative_to(models_folder).as_posix()
        for card in models_folder.glob("*/*/card.json")
    ]
    names = {name.partition("/")[0] for name in versions}
    return [f"models/{name}" for name in sorted({*versions, *names}) if _is_harmless(name)]


def fetch_rows(path: str, *, limit: int) -> list[dict[str, Any]]:
    """Return the rows of the service's answer; none if it refuses or does not answer in time."""
    rows: list[dict[str, Any]] = []

    def collect_rows() -> None:
        with suppress(Exception):  # the prompt has no place for an error
            rows.extend(_request_rows(f"{path}?limit={limit}"))

    # In a thread: a look-up of the host's name cannot be cut short otherwise.
    thread = Thread(target=collect_rows, daemon=True)
    thread.start()
    thread.join(get_patience_s())
    return [] if thread.is_alive() else rows


def get_patience_s() -> float:
    """Return how long the service may take, in seconds. A malformed variable is ignored."""
    try:
        return min(60.0, max(0.01, float(os.environ.get(PATIENCE) or _PATIENCE_S)))
    except ValueError:
        return _PATIENCE_S


def _request_rows(path: str) -> list[dict[str, Any]]:
    request = (rest.resolve_service_url(), "GET", rest.PREFIX + path, b"")
    answer = rest.send_request(*request, identified=False, limit_s=get_patience_s())
    if answer.status == HTTPStatus.UNAUTHORIZED:
        answer = rest.send_request(*request, identified=True, limit_s=get_patience_s())
    return list(json.loads(answer.body)["items"]) if answer.is_success else []


def _is_harmless(value: str) -> bool:
    return _HARMLESS.fullmatch(value) is not None
