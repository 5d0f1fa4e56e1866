"""Sends mail through one SMTP server."""

import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Literal

from mirage.chains.notices.channels import secret_files
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import DeliveryError

TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailer:
    host: str
    port: int
    sender: str
    security: Literal["none", "starttls", "tls"] = "starttls"
    user: str = ""
    password_file: Path | None = None

    def send(self, to: str, subject: str, body: str) -> None:
        """Send one mail. Raises DeliveryError, also if the recipient is refused."""
        message = EmailMessage(policy=SMTP)
        message["From"] = self.sender
        message["To"] = to
        # The end of a line in the subject would begin another header.
        message["Subject"] = escape_unprintable(subject)
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=self.sender.partition("@")[2])
        # Vacation answers and mailing lists then do not reply (RFC 3834).
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(body)
        password = (
            "" if self.password_file is None else secret_files.read_secret(self.password_file)
        )
        try:
            with self._open_connection() as server:
                if self.user:
                    server.login(self.user, password)
                server.send_message(message)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            reason = secret_files.redact_secrets(_describe_error(error), password)
            raise DeliveryError(f"mail through {self.host}: {reason}") from None

    def _open_connection(self) -> smtplib.SMTP:
        if self.security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=context)
        server = smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S)
        if self.security == "starttls":
            try:
                server.starttls(context=ssl.create_default_context())
            except BaseException:
                server.close()
                raise
        return server


def _describe_error(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "the recipient is refused"
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
        return f"{error.smtp_code} {text}"
    return str(error) or type(error).__name__
