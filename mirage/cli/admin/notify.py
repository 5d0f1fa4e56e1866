"""`mirage notify`: sends a test notice by mail and webhook."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from mirage.cli.options import ConfigOption
from mirage.domain.chain import ChainId
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import DeliveryError, InputError

if TYPE_CHECKING:
    from mirage.chains.notices.digest import Digest

app = typer.Typer()
notify = typer.Typer(no_args_is_help=True)
app.add_typer(notify, name="notify", help="Try the mail and the webhook that carry notices.")


@notify.command("test")
def send_test_digest(
    user: Annotated[
        str, typer.Argument(help="The user who gets the mail that a chain's owner would get.")
    ],
    *,
    config: ConfigOption = None,
) -> None:
    """Send a test notice through each channel that the configuration names (table notify).

    The notice is about a chain that does not exist, and is not stored. The exit code is 1 if a mail
    server or webhook did not accept it.
    """
    from mirage.config import settings as settings_file
    from mirage.service import notice_channels

    settings = settings_file.load_settings(config)
    senders = notice_channels.build_senders(settings.notify)
    if not senders:
        raise InputError(
            "[notify] of the configuration names no mail server and no webhook: "
            "set notify.smtp_host or notify.webhook_url_file"
        )
    failed = 0
    for channel, send in senders.items():
        try:
            send(_build_digest(settings.cluster.name, user, channel), int(time.time()))
            typer.echo(f"{channel}: accepted")
        except DeliveryError as error:
            failed += 1
            typer.echo(f"{channel}: not accepted: {escape_unprintable(str(error))}")
    if failed:
        raise typer.Exit(1)


def _build_digest(cluster: str, user: str, channel: str) -> "Digest":
    from mirage.chains.notices.digest import Digest
    from mirage.database.events.outbox import Notice

    notice = Notice(
        cluster_id=0,
        chain_id=ChainId("testchain000"),
        user=user,
        channel=channel,
        event="test",
        says="this is a test by `mirage notify test`; it is about no real chain",
        at=int(time.time()),
    )
    return Digest(cluster=cluster, notices=[notice])
