"""The service's own token, from a file."""

from pathlib import Path

import pytest

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.restd.token import TokenFile, parse_token
from tests.support.cluster.tokens import build_jwt

NOW = 1_000_000


def file_with(folder: Path, text: str) -> TokenFile:
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(text)
    return TokenFile(path, clock=lambda: NOW)


@pytest.mark.parametrize("form", ["{}", "{}\n", "SLURM_JWT={}\n"])
def test_a_file_holds_a_token_alone_or_as_scontrol_prints_it(tmp_path: Path, form: str) -> None:
    text = build_jwt("mirage", NOW + 60)
    token = file_with(tmp_path, form.format(text)).load_token()
    assert token.build_headers() == {"X-SLURM-USER-NAME": "mirage", "X-SLURM-USER-TOKEN": text}


def test_a_renewed_file_is_read_again(tmp_path: Path) -> None:
    file = file_with(tmp_path, build_jwt("mirage", NOW - 1))
    with pytest.raises(ClusterUnavailable, match="has expired: renew it"):
        file.load_token()
    (tmp_path / "token").write_text(build_jwt("mirage", NOW + 60))
    assert file.load_token().expires == NOW + 60


@pytest.mark.parametrize("text", ["", "hello", "a.b", "x" * 20000, "é.b.c", "a.!!.c"])
def test_a_file_without_a_token_is_said_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ClusterUnavailable, match="rest_token_file") as told:
        file_with(tmp_path, text).load_token()
    assert not text or text not in str(told.value)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o444])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = file_with(tmp_path, build_jwt("mirage", NOW + 60))
    file.path.chmod(mode)
    with pytest.raises(ClusterUnavailable, match="others may read it: `chmod 600` it"):
        file.load_token()


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="No such file"):
        TokenFile(tmp_path / "none").load_token()


def test_a_token_that_names_nobody_needs_the_setting(tmp_path: Path) -> None:
    text = build_jwt("", sun=None)
    with pytest.raises(ClusterUnavailable, match=r"set cluster\.rest_user"):
        file_with(tmp_path, text).load_token()
    assert parse_token(text, user="mirage").user == "mirage"


def test_a_token_is_not_shown_where_it_is_printed() -> None:
    text = build_jwt("mirage", NOW)
    assert text not in repr(parse_token(text))
