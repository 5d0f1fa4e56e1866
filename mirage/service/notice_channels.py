"""Builds the senders of notices (mail, webhook) from the settings."""

from collections.abc import Callable
from functools import partial

from mirage.chains.notices.channels.mail import Mailer
from mirage.chains.notices.channels.webhook import Webhook
from mirage.chains.notices.digest import Digest
from mirage.chains.notices.notice_delivery import Courier, Pace, Send
from mirage.chains.notices.notices import Channel, NoticeRecorder
from mirage.config.settings import NotifySettings
from mirage.domain.time_units import HOUR_S
from mirage.errors import DeliveryError
from mirage.service.wiring import Service

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def build_notice_recorder(notify: NotifySettings) -> NoticeRecorder | None:
    """Return what records notices for the worker's delivery; None if no channel is configured."""
    channels = list_channels(notify)
    if not channels:
        return None
    return NoticeRecorder(channels=channels, interruption_s=notify.interruption_h * HOUR_S)


def list_channels(notify: NotifySettings) -> tuple[Channel, ...]:
    """Return the configured channels."""
    return tuple(Channel(name) for name in build_senders(notify))


def build_courier(service: Service) -> Courier | None:
    """Return what delivers the service's notices; None if no channel is configured."""
    notify = service.settings.notify
    senders = build_senders(notify)
    if not senders:
        return None
    return Courier(
        store=service.store,
        cluster_id=service.cluster_id,
        cluster=service.settings.cluster.name,
        senders=senders,
        clock=service.cluster.read_clock,
        pace=Pace(chain_every_s=notify.chain_every_s, max_per_hour=notify.max_per_hour),
    )


def build_senders(notify: NotifySettings) -> dict[str, Send]:
    """Return the configured senders by channel; empty if none is configured."""
    senders: dict[str, Send] = {}
    if notify.smtp_host is not None and notify.mail_from is not None:
        mailer = Mailer(
            host=notify.smtp_host,
            port=notify.smtp_port,
            sender=notify.mail_from,
            security=notify.smtp_security,
            user=notify.smtp_user,
            password_file=notify.smtp_password_file,
        )
        if notify.owner_address is not None:
            senders[Channel.OWNER] = partial(
                _send_mail, mailer, partial(_format_owner_address, notify.owner_address)
            )
        if notify.admin_addresses:
            addresses = ", ".join(notify.admin_addresses)
            senders[Channel.ADMINS] = partial(_send_mail, mailer, lambda _digest: addresses)
    if notify.webhook_url_file is not None:
        webhook = Webhook(url_file=notify.webhook_url_file, secret_file=notify.webhook_secret_file)
        senders[Channel.WEBHOOK] = partial(_send_webhook, webhook)
    return senders


def _send_mail(
    mailer: Mailer, get_address: Callable[[Digest], str], digest: Digest, _now: int
) -> None:
    mailer.send(get_address(digest), digest.format_subject(), digest.render_text())


def _format_owner_address(template: str, digest: Digest) -> str:
    """Return the mail address of a digest's owner.

    The user's name becomes part of a mail header and of an SMTP command. Raises DeliveryError if
    the name has other characters than letters, digits, `.`, `_` and `-`.
    """
    user = digest.first.user
    if not user or not set(user) <= _NAME_CHARACTERS:
        raise DeliveryError(f"the user name {user!r} cannot be part of a mail address")
    return template.replace("{user}", user)


def _send_webhook(webhook: Webhook, digest: Digest, now: int) -> None:
    webhook.send(digest.build_body(), delivery=digest.delivery, now=now)
