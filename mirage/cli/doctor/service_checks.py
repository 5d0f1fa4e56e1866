"""Checks of the service itself: its models, whether it answers, and where."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx

from mirage.cli.doctor.finding import Finding, Severity, run_check
from mirage.config.settings import Settings
from mirage.database.chains import asking_links
from mirage.database.operations import clusters, telemetry
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import MirageError
from mirage.policies import registry
from mirage.service import database_setup, wiring
from mirage.web.shared.allowed_hosts import build_hosts

_TIMEOUT_S = 10.0
_OK, _MISDIRECTED = 200, 421


def check_service(settings: Settings, url: str | None) -> list[Finding]:
    """Run the checks of the service; `url` is its address for clients, such as a proxy's."""
    return [
        run_check("models", lambda: check_models(settings)),
        run_check("service", lambda: check_readiness(settings)),
        run_check("Slurm's answers", lambda: check_unread_rows(settings)),
        run_check("nodes", lambda: check_nodes(settings)),
        *_check_socket(settings),
        *(
            []
            if url is None
            else [run_check("proxy", lambda: check_proxy(url, settings.service.origins))]
        ),
    ]


def check_models(settings: Settings) -> tuple[Severity, str]:
    """Check whether each model file matches its card and this program's features."""
    models_folder = settings.models_dir
    names = [
        f"models/{folder.parent.name}/{folder.name}"
        for folder in registry.list_model_folders(models_folder)
    ]
    broken = list(_find_broken_models(names, settings))
    if broken:
        return Severity.FAULT, "; ".join(broken)
    return Severity.GOOD, f"{len(names)} in {models_folder}, each matches its card"


def check_unread_rows(settings: Settings) -> tuple[Severity, str]:
    """Check whether unreadable rows of Slurm's answers were left out in the last 24 hours."""
    since = int(time.time()) - DAY_S
    with closing(database_setup.open_store(settings)) as store, store.read() as tx:
        ids = {name: number for number, name in clusters.list_cluster_names(tx).items()}
        calls_by_command = telemetry.sum_calls_by_command(
            tx, ids.get(settings.cluster.name, 0), since
        )
    rows = {command: calls.unread for command, calls in calls_by_command.items() if calls.unread}
    if not rows:
        return Severity.GOOD, "Mirage could read every row of the last 24 h"
    summary = ", ".join(f"{command} {row_count:,}" for command, row_count in sorted(rows.items()))
    return Severity.WARNING, (
        f"rows of the last 24 h that Mirage could not read, summed over all answers: {summary}. "
        "The service's log shows each row once. Mirage makes no forecast for the jobs of these "
        "rows, and moves none of them"
    )


_ASKS_WITHIN_S = HOUR_S
"""A link that ran this long has asked for its plan."""
_OLD_S = 3 * HOUR_S
"""Links that started this long after the last call do not reach the service."""

_NODE_HELP = (
    "run `curl URL/healthz` on a node, with the url of its client.conf. If nothing answers, "
    "set service.host to an address that nodes reach, and open its port in the firewall. A link "
    "that reaches no service makes its own plan. Calls from this host do not count, nor those "
    "that a proxy here passes on over TCP"
)


def check_nodes(settings: Settings) -> tuple[Severity, str]:
    """Check whether links on compute nodes reach the service, by the calls that came from them.

    Warns if a link that asks has run for an hour, and no call came since three hours before it.
    """
    with closing(database_setup.open_store(settings)) as store, store.read() as tx:
        ids = {name: number for number, name in clusters.list_cluster_names(tx).items()}
        cluster_id = ids.get(settings.cluster.name, 0)
        asked_at = clusters.read_node_asked_at(tx, cluster_id)
        started_at = asking_links.find_newest_start(
            tx, cluster_id, now=int(time.time()), ran_s=_ASKS_WITHIN_S
        )
    sentence = "no client on another host has asked for a link's plan yet"
    if asked_at is not None:
        sentence = (
            f"a client on another host asked for a link's plan last at {_format_utc(asked_at)}"
        )
    if started_at is None or (asked_at is not None and started_at < asked_at + _OLD_S):
        note = ": no link that asks has run for an hour yet" if asked_at is None else ""
        return Severity.GOOD, sentence + note
    return Severity.WARNING, (
        f"{sentence}, but a link that asks started at {_format_utc(started_at)}: {_NODE_HELP}"
    )


def _format_utc(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _find_broken_models(names: list[str], settings: Settings) -> Iterator[str]:
    policy = wiring.get_policy_loader(settings)
    for name in names:
        try:
            policy(name)
        except MirageError as error:
            yield f"{name}: {error}"


def check_readiness(settings: Settings) -> tuple[Severity, str]:
    """Check whether the service answers on TCP, and has read the queue lately."""
    service = settings.service
    host = f"[{service.host}]" if ":" in service.host else service.host
    if service.port == 0:
        return Severity.GOOD, "service.port is 0: the service's log says which port it chose"
    url = f"http://{host}:{service.port}{service.root_path}"
    answer = _fetch_response(f"{url}/healthz")
    if isinstance(answer, str):
        return Severity.WARNING, (
            f"no service answers at {url}: run `systemctl start mirage` ({answer})"
        )
    ready = _fetch_response(f"{url}/readyz")
    if isinstance(ready, str) or ready.status_code != _OK:
        detail = ready if isinstance(ready, str) else ready.json().get("detail", ready.status_code)
        return Severity.WARNING, f"the service answers at {url}, but is not ready: {detail}"
    sentence = f"the service answers at {url}, and has read the queue lately"
    if shortcoming := ready.json().get("detail"):
        return Severity.WARNING, f"{sentence}; {shortcoming}"
    return Severity.GOOD, sentence


def _check_socket(settings: Settings) -> list[Finding]:
    path = settings.service.socket
    if path is None:
        return []

    def connect() -> tuple[Severity, str]:
        answer = _fetch_response("http://mirage/healthz", httpx.HTTPTransport(uds=str(path)))
        if isinstance(answer, str):
            return (
                Severity.WARNING,
                f"no service listens at {path}: run `systemctl start mirage` ({answer})",
            )
        return Severity.GOOD, f"the service answers at {path}"

    return [run_check("socket", connect)]


def check_proxy(url: str, origins: tuple[str, ...]) -> tuple[Severity, str]:
    """Check that Mirage answers at `url`, by that name and below the path it expects.

    Also warns if `service.origins` does not name an https origin.
    """
    base = url.rstrip("/")
    parts = urlsplit(base)
    origin = f"{parts.scheme}://{parts.netloc}"
    if fault := _find_proxy_fault(base, origin) or _find_root_path_fault(base):
        return Severity.FAULT, fault
    sentence = f"{base} is passed on to Mirage, and its pages are below {parts.path or '/'}"
    if parts.scheme == "https" and not build_hosts((), origins).is_https_host(parts.netloc):
        sentence = (
            f"{sentence}; add {origin!r} to service.origins, for sessions of https alone there"
        )
        return Severity.WARNING, sentence
    return Severity.GOOD, sentence


def _find_proxy_fault(base: str, origin: str) -> str:
    answer = _fetch_response(f"{base}/healthz")
    if isinstance(answer, str):
        return f"{base} does not answer: {answer}"
    if answer.status_code == _MISDIRECTED:
        return (
            f"{base} reaches Mirage by a name that it does not answer to: add {origin!r} to "
            "service.origins, start it again, and have the proxy pass the header Host as it came"
        )
    if answer.status_code != _OK or "X-Request-Id" not in answer.headers:
        return (
            f"{base} is not passed on to Mirage (status {answer.status_code}): "
            "see /usr/share/mirage/nginx, and start the service again if service.root_path is new"
        )
    return ""


def _find_root_path_fault(base: str) -> str:
    document = _fetch_response(f"{base}/api/v1/openapi.json")
    if isinstance(document, str):
        return f"{base}/api/v1 does not answer: {document}"
    if document.status_code != _OK:
        return f"{base}/api/v1 is not passed on to Mirage (status {document.status_code})"
    root = next((s["url"] for s in document.json().get("servers", ())), "").rstrip("/")
    path = urlsplit(base).path
    if root == path:
        return ""
    remedy = f"set service.root_path = {path!r}, or proxy it at {root or '/'!r}"
    return f"it is at {path or '/'} there and believes it is at {root or '/'}: {remedy}"


def _fetch_response(url: str, transport: httpx.HTTPTransport | None = None) -> httpx.Response | str:
    """Return the response, or the reason why there is none."""
    try:
        with httpx.Client(transport=transport, timeout=_TIMEOUT_S, trust_env=False) as client:
            return client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return str(error) or type(error).__name__
