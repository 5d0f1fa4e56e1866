"""Webhooks to a real server."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest

from mirage.chains.notices.channels import webhook
from mirage.chains.notices.channels.webhook import Webhook
from mirage.errors import DeliveryError
from tests.support.notify.receiver import Receiver, run_receiver

KEY = "key-of-both"
NOW = 1_800_000_000


def of(tmp_path: Path, url: str, key: str = "") -> Webhook:
    files = {}
    for name, text in (("url", url), ("key", key)):
        files[name] = tmp_path / name
        files[name].write_text(text)
        files[name].chmod(0o600)
    return Webhook(url_file=files["url"], secret_file=files["key"] if key else None)


def test_a_digest_arrives_signed(tmp_path: Path) -> None:
    with run_receiver() as receiver:
        of(tmp_path, receiver.url(), KEY).send({"text": "x"}, delivery="1-7", now=NOW)
    (call,) = receiver.calls
    assert json.loads(call.body) == {"text": "x"}
    expected = hmac.new(KEY.encode(), b"%d.%s" % (NOW, call.body), hashlib.sha256).hexdigest()
    assert call.headers[webhook.SIGNATURE] == f"t={NOW},v1={expected}"
    assert call.headers[webhook.DELIVERY] == "1-7"
    assert call.headers["Content-Type"] == "application/json"


def test_without_a_key_nothing_is_signed(tmp_path: Path) -> None:
    with run_receiver() as receiver:
        of(tmp_path, receiver.url()).send({}, delivery="1-7", now=NOW)
    assert webhook.SIGNATURE not in receiver.calls[0].headers


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with run_receiver() as elsewhere, run_receiver() as receiver:
        receiver.status, receiver.location = 307, elsewhere.url()
        with pytest.raises(DeliveryError, match="the answer was 307"):
            of(tmp_path, receiver.url()).send({}, delivery="1", now=NOW)
    assert elsewhere.calls == []


def test_neither_key_nor_path_is_in_an_error(tmp_path: Path) -> None:
    with run_receiver() as receiver:
        receiver.status = 500
        hook = of(tmp_path, receiver.url("/services/T0/secret-path"), KEY)
        with pytest.raises(DeliveryError) as failed:
            hook.send({}, delivery="1", now=NOW)
    with pytest.raises(DeliveryError) as away:
        hook.send({}, delivery="1", now=NOW)
    for error in (failed.value, away.value):
        assert "secret-path" not in str(error)
        assert KEY not in str(error)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://chat.example.org/hook", "must be https"),
        ("http://127.0.0.1.example.org/hook", "must be https"),
        ("ftp://127.0.0.1/hook", "no http or https address"),
        ("file:///etc/passwd", "no http or https address"),
        ("https://me:hushhush@chat.example.org/", "which logs would show"),
        ("https://", "no http or https address"),
        ("nonsense", "no http or https address"),
        ("http://[::1", "contains no URL"),
    ],
)
def test_an_address_that_will_not_do_is_refused(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(DeliveryError, match=why) as refused:
        of(tmp_path, url).send({}, delivery="1", now=NOW)
    assert "hushhush" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://chat.example.org/x", "http://localhost:1/x"])
def test_https_and_this_host_will_do(url: str) -> None:
    assert str(webhook.validate_url(url, "file")) == url


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    hook = of(tmp_path, Receiver(port=1).url())
    hook.url_file.chmod(0o644)
    with pytest.raises(DeliveryError, match="others may read"):
        hook.send({}, delivery="1", now=NOW)
