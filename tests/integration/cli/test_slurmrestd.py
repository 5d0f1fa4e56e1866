"""The settings that choose slurmrestd, as the commands and the service take them."""

import json
import os
from pathlib import Path

import pytest

from mirage.config.settings import Settings, load_settings
from mirage.errors import ConfigError
from mirage.service import wiring
from mirage.slurm.clients.restd.client import Slurmrestd
from tests.support.cluster.fixtures import fake
from tests.support.cluster.restd import FakeRestd, openapi
from tests.support.cluster.tokens import build_jwt
from tests.support.mirage_process import QuietSlurm, configured, run

__all__ = ["fake"]

_NODES: dict[str, object] = {"errors": [], "nodes": []}


@pytest.fixture
def rest_config(tmp_path: Path, fake: FakeRestd) -> Path:
    fake.answers("/slurm/v0.0.38/nodes", _NODES)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(build_jwt("mirage", 4e9))
    path = configured(tmp_path)
    text = path.read_text().replace(
        "[cluster]\n",
        f'[cluster]\ntransport = "rest"\nrest_url = "{fake.url}"\nrest_token_file = "{token}"\n',
        1,
    )
    path.write_text(text)
    return path


def told(config: Path, path: str) -> tuple[str, str]:
    answer = run("doctor", "--config", str(config), "--json", PATH=path)
    found = {f["what"]: (f["verdict"], f["told"]) for f in json.loads(answer.out)["findings"]}
    return found["Slurm"]


def test_the_doctor_asks_slurmrestd(rest_config: Path, fake: FakeRestd, tmp_path: Path) -> None:
    slurm = QuietSlurm(tmp_path / "slurm")
    verdict, said = told(rest_config, slurm.path)
    assert (verdict, said) == ("good", f"slurmrestd at {fake.url} speaks v0.0.38: 0 nodes")
    assert fake.calls("/slurm/v0.0.38/nodes")[0].headers["x-slurm-user-name"] == "mirage"


def test_the_doctor_says_what_slurmrestd_lacks(
    rest_config: Path, fake: FakeRestd, tmp_path: Path
) -> None:
    fake.answers("/openapi/v3", openapi("v0.0.38", accounting=False))
    verdict, said = told(rest_config, str(tmp_path))
    assert verdict == "warning"
    for words in ("serves no accounting", "PATH has no scontrol"):
        assert words in said
    (tmp_path / "token").chmod(0o644)
    verdict, said = told(rest_config, str(tmp_path))
    assert (verdict, "others may read it" in said) == ("fault", True)


@pytest.mark.parametrize(("version", "warned"), [("v0.0.46", True), ("v0.0.45", False)])
def test_the_doctor_says_that_a_version_was_never_tried(
    rest_config: Path, fake: FakeRestd, tmp_path: Path, version: str, warned: bool
) -> None:
    fake.answers("/openapi/v3", openapi(version))
    fake.answers(f"/slurm/{version}/nodes", _NODES)
    _, said = told(rest_config, QuietSlurm(tmp_path / "slurm").path)
    assert (f"never tried with {version}" in said) == warned


def test_the_doctor_wants_no_token_of_a_master(rest_config: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(build_jwt("slurm", 4e9))
    verdict, said = told(rest_config, QuietSlurm(tmp_path / "slurm").path)
    assert verdict == "warning"
    assert "may act as any user: use the token of an Operator" in said


def test_the_doctor_says_why_there_is_no_answer(rest_config: Path, fake: FakeRestd) -> None:
    fake.answers("/openapi/v3", "Authentication failure", status=401)
    verdict, said = told(rest_config, os.environ["PATH"])
    assert verdict == "fault"
    assert "does not know the caller" in said


def test_the_settings_become_a_slurmrestd(rest_config: Path, fake: FakeRestd) -> None:
    slurm = wiring.build_slurm_client(load_settings(rest_config))
    assert isinstance(slurm, Slurmrestd)
    assert slurm.fetch_nodes() == ()


def test_slurmrestd_needs_its_address(tmp_path: Path) -> None:
    path = tmp_path / "mirage.toml"
    path.write_text('[cluster]\ntransport = "rest"\n')
    with pytest.raises(ConfigError, match=r'transport = "rest" needs rest_url'):
        load_settings(path)


@pytest.mark.parametrize(
    ("url", "warned"),
    [("http://slurm.example:6820", 1), ("https://slurm.example", 0), ("http://127.0.0.1:6820", 0)],
)
def test_a_token_that_travels_in_the_open_is_warned_of(url: str, warned: int) -> None:
    settings = Settings.model_validate(
        {
            "cluster": {"transport": "rest", "rest_url": url, "rest_token_file": "/t"},
            "provision": {"policy": "reactive"},
        }
    )
    assert len(wiring.check_settings(settings)) == warned
