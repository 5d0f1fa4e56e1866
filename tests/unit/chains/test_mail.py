"""Mail through a real server."""

from pathlib import Path

import pytest

from mirage.chains.notices.channels.mail import Mailer
from mirage.errors import DeliveryError
from tests.support.notify.smtp_server import Post, serving

SECRET = "hush-hush-7"  # noqa: S105 - of no server


def mailer(post: Post, password_file: Path | None = None) -> Mailer:
    return Mailer(
        host="127.0.0.1",
        port=post.port,
        sender="mirage@example.org",
        security="none",
        user="mirage" if password_file else "",
        password_file=password_file,
    )


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    return file


def test_a_mail_arrives_as_it_was_meant() -> None:
    with serving() as post:
        mailer(post).send("alice@example.org", "chain k3: at-risk", "Grüße\n")
    (message,) = post.messages
    assert post.recipients == ["<alice@example.org>"]
    assert message["Subject"] == "chain k3: at-risk"
    assert message["From"] == "mirage@example.org"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_payload(decode=True) == "Grüße\r\n".encode()


def test_a_line_end_in_a_subject_makes_no_header() -> None:
    with serving() as post:
        mailer(post).send("alice@example.org", "x\r\nBcc: everybody@example.org\n\nbody", "y")
    (message,) = post.messages
    assert message["Bcc"] is None
    assert post.recipients == ["<alice@example.org>"]
    assert message["Subject"] == r"x\r\nBcc: everybody@example.org\n\nbody"


def test_several_recipients_are_each_told_to_the_server() -> None:
    with serving() as post:
        mailer(post).send("a@example.org, b@example.org", "x", "y")
    assert post.recipients == ["<a@example.org>", "<b@example.org>"]


def test_a_login_uses_the_password_of_its_file(password: Path) -> None:
    with serving() as post:
        mailer(post, password).send("alice@example.org", "x", "y")
    assert post.logins == [f"\0mirage\0{SECRET}"]


@pytest.mark.parametrize("command", ["AUTH", "MAIL", "RCPT", "DATA"])
def test_a_refusal_is_told_without_the_password(password: Path, command: str) -> None:
    with serving(Post(refuses=command)) as post, pytest.raises(DeliveryError) as refused:
        mailer(post, password).send("alice@example.org", "x", "y")
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None, "a traceback would show the server's words"
    assert "\n" not in str(refused.value)


def test_a_server_that_is_away_is_one_sentence() -> None:
    with serving() as post:
        port = post.port
    with pytest.raises(DeliveryError, match=r"^mail through 127\.0\.0\.1: "):
        mailer(Post(port=port)).send("alice@example.org", "x", "y")


def test_without_encryption_where_it_is_asked_for_nothing_is_sent() -> None:
    with serving() as post, pytest.raises(DeliveryError):
        Mailer(host="127.0.0.1", port=post.port, sender="m@example.org").send("a@b.c", "x", "y")
    assert post.messages == []


def test_a_password_that_others_may_read_is_not_used(password: Path) -> None:
    password.chmod(0o644)
    with serving() as post, pytest.raises(DeliveryError, match="others may read"):
        mailer(post, password).send("alice@example.org", "x", "y")
    assert post.logins == []
