"""`mirage notify test` against a real mail server."""

from pathlib import Path

from tests.support.mirage_process import Answer, run
from tests.support.notify.smtp_server import Post, serving


def told(config: Path) -> Answer:
    return run("notify", "test", "alice", "--config", str(config))


def configured(tmp_path: Path, port: int) -> Path:
    file = tmp_path / "mirage.toml"
    file.write_text(
        f'[notify]\nsmtp_host = "127.0.0.1"\nsmtp_port = {port}\nsmtp_security = "none"\n'
        'mail_from = "mirage@example.org"\nowner_address = "{user}@example.org"\n'
    )
    return file


def test_a_mail_is_tried(tmp_path: Path) -> None:
    with serving() as post:
        done = told(configured(tmp_path, post.port))
    assert (done.code, done.out, done.err) == (0, "owner: accepted\n", "")
    assert post.recipients == ["<alice@example.org>"]


def test_a_refusal_is_said(tmp_path: Path) -> None:
    with serving(Post(refuses="RCPT")) as post:
        done = told(configured(tmp_path, post.port))
    assert done.code == 1
    assert done.out == "owner: not accepted: mail through 127.0.0.1: the recipient is refused\n"


def test_without_a_channel_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mirage.toml"
    file.write_text("")
    done = told(file)
    assert done.code == 2
    assert "names no mail server and no webhook" in done.err
