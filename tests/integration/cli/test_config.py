"""`mirage config` as a process: every fault at once, and where each value comes from."""

import json
from pathlib import Path

import pytest

from mirage.cli.admin.config import render_reference
from tests.support.mirage_process import Answer, run

WRONG = """colour = "red"
[service]
port = 70000
admin = ["root"]
[polling]
queue_s = "often"
[provision]
policy = "models/none/1"
[database]
url = ["postgresql://me:hunter2@h/m"]
[submit]
sudo = "/opt/mirage/slurm_plugin/mirage-link"
"""


def test_what_is_right_is_said(config: Path) -> None:
    for words in ((config,), ("--config", config)):
        answer = run("config", "check", *words)
        said = f"the configuration is right: {config}\n"
        assert (answer.code, answer.out, answer.err) == (0, said, "")
    told = json.loads(run("config", "check", config, "--json").out)
    assert told == {"source": str(config), "right": True, "faults": [], "warnings": []}


def test_every_fault_is_told_at_once_with_what_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "mirage.toml"
    path.write_text(WRONG)
    answer = run("config", "check", str(path), "--json", MIRAGE_POLLING_NODES_S="0")
    assert answer.code == 2
    told = {fault["key"]: fault for fault in json.loads(answer.out)["faults"]}
    assert set(told) == {
        *("colour", "service.port", "service.admin", "polling.queue_s", "polling.nodes_s"),
        *("provision.policy", "database.url", "submit.sudo"),
    }
    port = told["service.port"]
    assert (port["line"], port["value"], port["allowed"]) == (3, 70000, ">= 0, <= 65535")
    assert told["service.admin"]["nearest"] == "service.admins"
    assert told["colour"]["nearest"] is None
    assert told["polling.nodes_s"]["variable"] == "MIRAGE_POLLING_NODES_S"
    assert "no model models/none/1" in told["provision.policy"]["said"]
    assert "hunter2" not in answer.out


def test_the_faults_in_words(tmp_path: Path) -> None:
    path = tmp_path / "mirage.toml"
    path.write_text(WRONG)
    answer = run("config", "check", str(path))
    assert (answer.code, answer.out) == (2, "")
    first, *lines = answer.err.splitlines()
    assert first == f"mirage: {path}: 7 faults"
    assert "  line 4: unknown key 'service.admin': is 'service.admins' meant?" in lines
    assert "hunter2" not in answer.err


def test_a_variable_that_sets_nothing_is_warned_of(config: Path) -> None:
    answer = run("config", "check", config, MIRAGE_POLLING_QEUE_S="30")
    assert (answer.code, answer.out) == (0, f"the configuration is right: {config}\n")
    assert "is 'MIRAGE_POLLING_QUEUE_S' meant?" in answer.err


def test_a_key_that_went_is_told_whether_it_was_used_or_not(config: Path) -> None:
    text = config.read_text()
    config.write_text(text.replace("[cluster]", "[cluster]\nrest_token_command = []"))
    answer = run("config", "check", config)
    assert answer.code == 0
    assert "warning: cluster.rest_token_command is no longer a setting" in answer.err
    answer = run("config", "check", config, "--json", MIRAGE_SUBMIT_SUDO="/x")
    (fault,) = json.loads(answer.out)["faults"]
    assert (answer.code, fault["key"]) == (2, "submit.sudo")
    assert fault["variable"] == "MIRAGE_SUBMIT_SUDO"
    assert fault["said"].startswith("the service no longer submits links")


def test_where_each_value_comes_from(config: Path) -> None:
    answer = run("config", "show", "--origin", "--config", config, MIRAGE_POLLING_QUEUE_S="30")
    lines = [line.split("  # ") for line in answer.out.splitlines()]
    shown = {line.strip(): origin for line, origin in lines}
    assert shown['cluster.name = "lab"'] == f"{config}:3"
    assert shown["polling.queue_s = 30"] == "MIRAGE_POLLING_QUEUE_S"
    assert shown["polling.nodes_s = 120"] == "default"
    told = json.loads(run("config", "show", "--origin", "--json", MIRAGE_CONFIG=str(config)).out)
    assert told["cluster"]["name"] == {"value": "lab", "origin": f"{config}:3"}


def test_the_settings_in_force(config: Path) -> None:
    shown = json.loads(run("config", "show", "--json", MIRAGE_CONFIG=str(config)).out)
    assert (shown["cluster"]["name"], shown["polling"]["queue_s"]) == ("lab", 60)
    assert 'cluster.name = "lab"\n' in run("config", "show", "--config", config).out


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://me:hunter2@h/m", "postgresql://me:***@h/m"),
        ("postgresql://h/m?user=me&password=hunter2", "postgresql://h/m?password=hidden&user=me"),
        ("postgresql:me:hunter2@h", "***"),
    ],
)
def test_the_databases_password_is_kept(config: Path, tmp_path: Path, url: str, told: str) -> None:
    """Of the file's and of the environment's, which goes before it."""
    named = tmp_path / "named.toml"
    named.write_text(f'[database]\nurl = "{url}"\n')
    of_file = run("config", "show", "--json", "--config", str(named))
    of_environment = run("config", "show", "--json", "--config", config, MIRAGE_DATABASE_URL=url)
    for answer in (of_file, of_environment):
        assert "hunter2" not in answer.out
        assert json.loads(answer.out)["database"]["url"] == told


def test_other_passwords_in_addresses_are_kept(tmp_path: Path) -> None:
    named = tmp_path / "named.toml"
    named.write_text('[auth]\njwks_url = "https://me:hunter2@login.example.org/jwks"\n')
    shown = run("config", "show", "--config", str(named)).out
    assert 'auth.jwks_url = "https://me:***@login.example.org/jwks"' in shown


def test_the_reference() -> None:
    assert run("config", "reference").out == render_reference()


def test_the_file_of_a_users_own_service_is_checked(tmp_path: Path) -> None:
    """With --user, or where it is the only one; no variable overrides it."""
    own = tmp_path / "mirage" / "mirage.toml"
    own.parent.mkdir()
    own.write_text('[polling]\nqueue_s = "often"\n')
    home = str(tmp_path)

    def check(*words: str, site: Path | str = "") -> Answer:
        named = {"XDG_CONFIG_HOME": home, "MIRAGE_CONFIG": str(site)}
        return run("config", "check", *words, environ=named | {"MIRAGE_POLLING_QUEUE_S": "60"})

    for words in (("--user",), ()):
        answer = check(*words)
        assert answer.code == 2
        assert f"mirage: {own}: line 2: polling.queue_s" in answer.err
    site = tmp_path / "site.toml"
    site.write_text("")
    assert check(site=site).code == 0
    own.write_text("[polling]\nqueue_s = 5\n")
    answer = check("--user")
    assert (answer.code, answer.out) == (0, f"the configuration is right: {own}\n")
