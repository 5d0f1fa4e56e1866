"""A Tab after `mirage`: in real shells, from the real service, and without one."""

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path

import pytest

from mirage.__main__ import main
from mirage.cli.connection import suggestions
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState
from mirage.web.api.app import ApiContext
from tests.needed import absent
from tests.support.api.fixtures import client, context, stage, store
from tests.support.api.rows import add_chain, add_links, look, read_running_job
from tests.support.api.running import CHAIN, Client, Stage
from tests.support.cli.shells import environment, type_at_terminal
from tests.support.patient import PATIENCE_S

__all__ = ["client", "context", "stage", "store"]

BEGUN, REST = CHAIN[:2], CHAIN[2:]


def complete(line: str, url: str = "http://127.0.0.1:9", **more: str) -> list[str]:
    """As bash asks, in this process."""
    words = line.split(" ")
    asked = {"_MIRAGE_COMPLETE": "complete_bash", "COMP_CWORD": str(len(words) - 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRAGE_URL", url)
        patch.setenv(suggestions.PATIENCE, "30")
        for name, value in (asked | {"COMP_WORDS": "\n".join(words)} | more).items():
            patch.setenv(name, value)
        with redirect_stdout(StringIO()) as told, pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0
    return told.getvalue().split()


@pytest.fixture
def chain(store: Store, cluster_id: int) -> str:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_chain(tx, cluster_id, "pausedchain1", state=ChainState.PAUSED)
        add_chain(tx, cluster_id, "overchain111", state=ChainState.FINISHED)
    return CHAIN


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("mirage cha", ["chain"]),
        ("mirage chain li", ["list"]),
        ("mirage chain list --st", ["--state"]),
        ("mirage chain list --state pa", ["paused"]),
        ("mirage chain list --state = pa", ["paused"]),
        ("mirage mode sh", ["shadow"]),
        ("mirage train fo", ["forest"]),
        ("mirage chain submit --links 3 --policy slu", ["slurm-estimate"]),
        ("mirage chain submit --links 3 script.sh --li", []),
        ("mirage nosuchcommand x", []),
        ("mirage simulate ", []),
    ],
)
def test_words_that_need_no_service(line: str, found: list[str]) -> None:
    assert complete(line) == found


def test_models_are_those_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ours/1", "ours/2"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "card.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    shown = ["models/ours", "models/ours/1", "models/ours/2"]
    assert complete("mirage models show mod") == shown
    assert complete("mirage evaluate e.npz --policy mod") == shown


@pytest.mark.usefixtures("chain")
def test_chains_are_those_that_the_command_is_for(client: Client) -> None:
    everything = {CHAIN, "pausedchain1", "overchain111"}
    assert set(complete("mirage chain show ", client.url)) == everything
    assert complete("mirage chain pause ", client.url) == [CHAIN]
    assert complete("mirage chain resume ", client.url) == ["pausedchain1"]
    assert set(complete("mirage chain cancel ", client.url)) == {CHAIN, "pausedchain1"}
    assert complete("mirage chain show k3v9x2m7q1zt ", client.url) == []


@pytest.mark.usefixtures("chain")
def test_chains_through_a_unix_socket(stage: Stage, context: ApiContext) -> None:
    with stage.serving(context):
        assert complete("mirage chain pause ", f"unix://{stage.socket_path}") == [CHAIN]


def test_partitions_are_those_of_jobs(client: Client, store: Store, cluster_id: int) -> None:
    look(store, cluster_id, read_running_job(1), read_running_job(2, partition="long"))
    assert complete("mirage mode act --partition ", client.url) == ["gpu", "long"]


@pytest.mark.usefixtures("chain")
def test_a_private_cluster_tells_nothing_without_a_credential(
    stage: Stage, context: ApiContext, tmp_path: Path
) -> None:
    private = replace(context, hidden=lambda: frozenset({"jobs"}))
    with stage.serving(private) as client:
        unreadable = str(tmp_path / "none")
        assert complete("mirage chain show ", client.url, MIRAGE_TOKEN_FILE=unreadable) == []


class _Hostile(BaseHTTPRequestHandler):
    """A service that answers with what a shell would run."""

    def do_GET(self) -> None:
        rows = [
            {"chain_id": name, "state": "active", "links_started": 1}
            for name in ("$(touch hurt)", "`touch hurt`", "a'b", "x;y", "-rf", "goodchain1")
        ]
        rows.append({"chain_id": "badstate111", "state": "$(touch hurt)", "links_started": 1})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"items": rows}).encode())

    def log_message(self, *_: object) -> None:
        """Not on standard error."""


@pytest.fixture
def hostile() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Hostile) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_nothing_that_a_shell_would_run_is_passed_on(hostile: str) -> None:
    assert complete("mirage chain show ", hostile) == ["goodchain1"]


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def tab(url: str, home: Path) -> subprocess.CompletedProcess[str]:
    """What a whole process said; raises TimeoutExpired where it waits for a service."""
    asked = {"_MIRAGE_COMPLETE": "complete_bash", "COMP_CWORD": "3"}
    environ = environment(home, url) | asked | {"COMP_WORDS": "mirage\nchain\nshow\n"}
    del environ[suggestions.PATIENCE]
    program = [sys.executable, "-m", "mirage"]
    return subprocess.run(
        program, env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_a_service_that_is_silent_or_away_costs_the_suggestions_alone(
    silent: str, tmp_path: Path
) -> None:
    assert suggestions.get_patience_s() <= 0.5
    for url in ("http://127.0.0.1:9", silent, "http://no-such-host.invalid", "nonsense"):
        done = tab(url, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def shell(name: str) -> str:
    found = shutil.which(name)
    return found or absent(f"no {name}")


def script(name: str, home: Path, url: str) -> str:
    """What `mirage --show-completion` prints in that shell."""
    environ = environment(home, url) | {"_MIRAGE_COMPLETE": f"source_{name}"}
    command = [str(Path(sys.executable).parent / "mirage")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.usefixtures("chain")
def test_bash_completes_a_chain(client: Client, tmp_path: Path) -> None:
    bash = shell("bash")
    rc = tmp_path / "rc"
    rc.write_text(script("bash", tmp_path, client.url) + "PS1='READY> '\n")
    argv = [bash, "--noprofile", "--rcfile", str(rc), "-i"]
    environ = environment(tmp_path, client.url)
    type_at_terminal(argv, f"mirage chain show {BEGUN}\t", f"{BEGUN}{REST}", environ)


@pytest.mark.usefixtures("chain")
def test_zsh_completes_a_chain(client: Client, tmp_path: Path) -> None:
    zsh = shell("zsh")
    own = script("zsh", tmp_path, client.url)
    rc = f"autoload -U compinit; compinit -D -u\n{own}\nPS1='READY> '\n"
    (tmp_path / ".zshrc").write_text(rc)
    environ = environment(tmp_path, client.url)
    type_at_terminal([zsh, "-d", "-i"], f"mirage chain show {BEGUN}\t", REST, environ)


def test_zsh_shows_the_colons_of_a_help_line(client: Client, tmp_path: Path) -> None:
    zsh = shell("zsh")
    own = script("zsh", tmp_path, client.url)
    rc = f"autoload -U compinit; compinit -D -u\n{own}\nPS1='READY> '\n"
    (tmp_path / ".zshrc").write_text(rc)
    environ = environment(tmp_path, client.url)
    type_at_terminal(
        [zsh, "-d", "-i"], "stty cols 120; mirage episodes --t\t\t", ": 48:00:00", environ
    )


@pytest.mark.usefixtures("chain")
def test_fish_completes_a_chain(client: Client, tmp_path: Path) -> None:
    own = tmp_path / "mirage.fish"
    own.write_text(script("fish", tmp_path, client.url))
    asked = f"source {own}; complete -C 'mirage chain show {BEGUN}'"
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", asked],
        env=environment(tmp_path, client.url),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(f"{CHAIN}\tactive, 3 links begun"), done
