"""`mirage notify`: whether mail and webhook are taken, before anything happens."""

import time
from typing import Annotated

import typer

from mirage.bootstrap import notice_channels
from mirage.cli.options import ConfigOption
from mirage.config import settings as settings_file
from mirage.domain.chain import ChainId
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import DeliveryError, InputError
from mirage.services.notify.digest import Digest
from mirage.store.events.outbox import Notice

app = typer.Typer()
notify = typer.Typer(no_args_is_help=True)
app.add_typer(notify, name="notify", help="Mail and webhook on chains: try what is configured.")


@notify.command("test")
def send_test_digest(
    user: Annotated[str, typer.Argument(help="Whose address the owner's digest goes to.")],
    *,
    config: ConfigOption = None,
) -> None:
    """Send one digest on a chain that does not exist through each channel of [notify].

    Nothing is stored. The exit code is 1 where one was not taken.
    """
    settings = settings_file.load_settings(config)
    senders = notice_channels.build_senders(settings.notify)
    if not senders:
        raise InputError("[notify] of the configuration names no mail server and no webhook")
    failed = 0
    for channel, send in senders.items():
        try:
            send(_build_digest(settings.cluster.name, user, channel), int(time.time()))
            typer.echo(f"{channel}: taken")
        except DeliveryError as error:
            failed += 1
            typer.echo(f"{channel}: not taken: {escape_unprintable(str(error))}")
    if failed:
        raise typer.Exit(1)


def _build_digest(cluster: str, user: str, channel: str) -> Digest:
    notice = Notice(
        cluster_id=0,
        chain_id=ChainId("testchain000"),
        user=user,
        channel=channel,
        event="test",
        says="this is a test of mirage notify: no chain is meant",
        at=int(time.time()),
    )
    return Digest(cluster=cluster, notices=[notice])
