"""`mirage token`: bearer tokens for clients without MUNGE, such as Grafana."""

import getpass
import json
import os
import pwd
import re
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.options import ConfigOption, JsonOption
from mirage.domain.callers.caller import NOBODY_UID, Role
from mirage.errors import InputError

if TYPE_CHECKING:
    from mirage.database.access.tokens import Token

app = typer.Typer()
token_app = typer.Typer(
    no_args_is_help=True,
    help="Create, list or revoke bearer tokens. For admins: it writes to the database.",
)
app.add_typer(token_app, name="token")

_UNITS = {"h": 3600, "d": 86400}
_SPAN = re.compile(r"(\d{1,5})([hd])")


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="What the token is for, such as grafana.")],
    *,
    role: Annotated[Role, typer.Option(help="The role that the token gives.")] = Role.VIEWER,
    user: Annotated[
        str | None,
        typer.Option(help="The user of the token, which allows no more than this user may do."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster that the token is for. Default: every cluster.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="The token allows no changes.")
    ] = False,
    expires: Annotated[str, typer.Option(help="How long the token is valid: 12h, 90d.")] = "90d",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token and print it. It cannot be shown again: Mirage stores only its hash."""
    from mirage.config import settings as settings_file
    from mirage.database.access.tokens import Token
    from mirage.database.operations import clusters
    from mirage.service import database_setup
    from mirage.web.identity import tokens as token_service

    settings = settings_file.load_settings(config)
    now = int(time.time())
    store = database_setup.open_store(settings)
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        request = Token(
            name=name,
            role=role,
            user=user or "",
            uid=NOBODY_UID if user is None else _get_uid(user),
            cluster_id=None if cluster is None else token_service.get_cluster_id(tx, cluster),
            read_only=read_only or role is Role.VIEWER,
            created_at=now,
            created_by=_get_actor(),
            expires_at=now + _parse_span_s(expires),
        )
        token, text = token_service.create_token(tx, request, cluster_id=cluster_id)
    store.close()
    if as_json:
        typer.echo(json.dumps(_build_json(token) | {"token": text}))
        return
    typer.echo(text)
    typer.echo(
        f"token {token.token_id} of role {token.role}: save it now, it cannot be shown again",
        err=True,
    )


@token_app.command("list")
def list_tokens(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List all tokens, newest first, with expired and revoked ones. Secrets are not shown."""
    from mirage.config import settings as settings_file
    from mirage.database.access import tokens
    from mirage.database.operations import clusters
    from mirage.service import database_setup

    store = database_setup.open_store(settings_file.load_settings(config))
    with store.read() as tx:
        stored_tokens, names = tokens.list_tokens(tx), clusters.list_cluster_names(tx)
    store.close()
    if as_json:
        typer.echo(json.dumps([_build_json(token) for token in stored_tokens], indent=2))
        return
    table = Table("token", "name", "role", "user", "cluster", "expires", "made by", "")
    for token in stored_tokens:
        words = [token.token_id, token.name, _format_role(token), token.user or "-"]
        words.append("every" if token.cluster_id is None else names[token.cluster_id])
        table.add_row(
            *map(
                escape,
                [*words, _format_day(token.expires_at), token.created_by, _describe_end(token)],
            )
        )
    Console().print(table)


@token_app.command("revoke")
def revoke_token(
    token_id: Annotated[str, typer.Argument(help="As `mirage token list` shows it.")],
    *,
    config: ConfigOption = None,
) -> None:
    """Revoke a token: the service refuses it from now on. Running it again changes nothing."""
    from mirage.config import settings as settings_file
    from mirage.database.operations import clusters
    from mirage.service import database_setup
    from mirage.web.identity import tokens as token_service

    settings = settings_file.load_settings(config)
    store = database_setup.open_store(settings)
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        token_service.revoke_token(
            tx, token_id, cluster_id=cluster_id, now=int(time.time()), actor=_get_actor()
        )
    store.close()
    typer.echo(f"token {token_id} is revoked")


def _get_uid(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise InputError(f"this host knows no user {user!r}: see `getent passwd`") from None


def _get_actor() -> str:
    """Return the name of the user who runs this command.

    Everyone who may write the database may make tokens.
    """
    return os.environ.get("SUDO_USER") or getpass.getuser()


def _parse_span_s(span: str) -> int:
    match = _SPAN.fullmatch(span)
    if match is None:
        raise InputError(f"{span!r} is not a number of hours or days: write 12h or 90d")
    return int(match[1]) * _UNITS[match[2]]


def _build_json(token: "Token") -> dict[str, Any]:
    return {name: value for name, value in asdict(token).items() if name != "digest"}


def _format_role(token: "Token") -> str:
    only = token.read_only and token.role is not Role.VIEWER
    return f"{token.role}, read only" if only else token.role.value


def _format_day(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _describe_end(token: "Token") -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at <= time.time() else ""
