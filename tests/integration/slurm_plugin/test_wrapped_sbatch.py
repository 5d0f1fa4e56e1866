"""The wrapped sbatch as a process: what it passes through, refuses, and submits."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mirage.domain.chain import ChainId, is_made_for
from tests.support.paths import PLUGIN
from tests.support.patient import PATIENCE_S
from tests.support.slurm_plugin.fakes import WRAPPER, FakeSlurm

SCRIPT = "#!/bin/sh\n#SBATCH --time=10\necho hello\n"


@pytest.mark.parametrize(
    "words",
    [
        ["job.sh"],
        ["-N2", "--comment", "a b", "job.sh", "--chain=3", "x y"],
        ["--parsable", "job.sh"],
        ["--array=1-3", "job.sh"],
        ["--test-only", "job.sh"],
        ["--wrap", "echo 'a  b'"],
        ["--wrap=true", "-J", "n"],
        ["--no-such-option", "job.sh"],
        ["-N1", ":", "-N2", "--", "job.sh", "-x"],
        ["nowhere.sh"],
        [],
    ],
)
def test_without_a_chain_every_word_and_answer_passes_through(
    slurm: FakeSlurm, words: list[str]
) -> None:
    slurm.script(SCRIPT)
    slurm.answers(stderr="sbatch: warning\n")
    real = slurm.sbatch(*words, program=slurm.root / "bin" / "sbatch")
    wrapped = slurm.sbatch(*words)
    first, second = slurm.calls()
    assert (first.argv, first.script, first.cwd) == (second.argv, second.script, second.cwd)
    assert {**first.env, "_": ""} == {**second.env, "_": ""}
    assert wrapped.stdout.replace(b"102", b"101") == real.stdout
    assert (wrapped.stderr, wrapped.returncode) == (real.stderr, real.returncode)
    assert slurm.chains() == []


@pytest.mark.parametrize("code", [1, 7, 255])
@pytest.mark.parametrize("words", [["job.sh"], ["--mirage-chain=2", "job.sh"]])
def test_a_refused_job_keeps_its_message_and_code(
    slurm: FakeSlurm, words: list[str], code: int
) -> None:
    slurm.script(SCRIPT)
    slurm.answers(stderr="sbatch: error: Batch job submission failed\n", code=code)
    done = slurm.sbatch(*words)
    assert (done.stdout, done.returncode) == (b"", code)
    assert done.stderr == b"sbatch: error: Batch job submission failed\n"
    assert slurm.chains() == []


@pytest.mark.parametrize("size", [0, 100, 200_000])
def test_a_script_on_a_pipe_reaches_sbatch_whole(slurm: FakeSlurm, size: int) -> None:
    text = SCRIPT.encode() + b"# x\n" * size
    done = slurm.sbatch(stdin=text)
    assert done.stdout == b"Submitted batch job 101\n"
    assert slurm.calls()[0].script == text


@pytest.mark.parametrize("words", [[], ["--comment=mirage:style=wait"], ["--mirage-chain=x"]])
def test_a_call_without_a_chain_leaves_a_pipe_alone(slurm: FakeSlurm, words: list[str]) -> None:
    """Nothing is ever written: sbatch refuses bad options without waiting for that."""
    slurm.command("sbatch", "#!/bin/sh\nexit 255\n")
    ours, theirs = os.pipe()
    with os.fdopen(ours), os.fdopen(theirs, "w"):
        done = subprocess.run(
            [WRAPPER, *words, "--time=abc"],
            stdin=ours,
            check=False,
            capture_output=True,
            env=slurm.environ,
            timeout=PATIENCE_S,
        )
    assert done.returncode == (1 if "--mirage-chain=x" in words else 255)


def test_directives_on_a_pipe_count_where_a_chain_is_asked_for(slurm: FakeSlurm) -> None:
    lines = b"#SBATCH --comment=mine\n#MIRAGE --style=wait\n"
    assert (
        slurm.sbatch("--mirage-chain=2", stdin=b"#!/bin/sh\n" + lines + b"true\n").returncode == 0
    )
    (call,) = slurm.calls()
    assert b"\nmirage_style='wait'\n" in call.script
    assert call.argv[0].startswith("--comment=mine mirage:")
    refused = slurm.sbatch("--mirage-chain=2", stdin=b"#!/bin/sh\n#SBATCH --array=1-3\ntrue\n")
    assert b"a job array cannot be a chain" in refused.stderr


def test_a_chain_is_asked_for_by_option_environment_or_script(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    slurm.script("#!/bin/sh\n#MIRAGE --chain=4 --policy=average\ntrue\n", "own.sh")
    asked: list[tuple[list[str], dict[str, str], bytes | None]] = [
        (["--mirage-chain=4", "job.sh"], {}, None),
        (["--mirage-chain", "4", "--mirage-policy=average", "job.sh"], {"MIRAGE_CHAIN": "9"}, None),
        (["job.sh"], {"MIRAGE_CHAIN": "4"}, None),
        (["own.sh"], {}, None),
        (["--mirage-chain=4"], {}, SCRIPT.encode()),
        (["--comment=mirage:chain=4"], {}, SCRIPT.encode()),
        ([], {"MIRAGE_CHAIN": "4"}, SCRIPT.encode()),
        (["--mirage-chain=4", "--wrap=true"], {}, None),
    ]
    for words, env, stdin in asked:
        assert slurm.sbatch(*words, env=env, stdin=stdin).returncode == 0
    for call, _ in zip(slurm.calls(), asked, strict=True):
        assert b"\nmirage_links='4'\n" in call.script
        assert "MIRAGE_CHAIN" not in call.env
        assert not [word for word in call.argv if word.startswith("--mirage")]


@pytest.mark.parametrize("links", ["0", "-1", "many", "1001", "", "1e3", "٣"])
def test_an_absurd_length_is_refused_in_one_sentence(slurm: FakeSlurm, links: str) -> None:
    slurm.script(SCRIPT)
    done = slurm.sbatch(f"--mirage-chain={links}", "job.sh")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"a chain has 1 to 1000 links, not '" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert slurm.calls() == []


@pytest.mark.parametrize(
    ("words", "env", "script", "sentence"),
    [
        (["-a", "1-3"], {}, SCRIPT, b"a job array cannot be a chain"),
        ([], {"SBATCH_ARRAY_INX": "1-3"}, SCRIPT, b"a job array cannot be a chain"),
        ([], {}, "#!/bin/sh\n#SBATCH -J x --arr=1-3\ntrue\n", b"a job array cannot be a chain"),
        (["-W"], {}, SCRIPT, b"--wait cannot be a chain"),
        (["--dependency=singleton"], {}, SCRIPT, b"--dependency=singleton cannot be a chain"),
        (["-d", "afterok:7,Singleton"], {}, SCRIPT, b"--dependency=singleton cannot be a chain"),
        (["-d", "singleton", ":", "-n2"], {}, SCRIPT, b"--dependency=singleton cannot be a chain"),
        ([], {}, "#!/bin/sh\n#SBATCH -d singleton\ntrue\n", b"--dependency=singleton cannot be"),
        ([], {}, SCRIPT + "srun python -u -m submitit.core._submit /logs\n", b"a job of submitit"),
        (["-M", "a,b"], {}, SCRIPT, b"a chain stays on one cluster"),
        (["--uid=bob"], {}, SCRIPT, b"for somebody else"),
        (["--mirage-chains=2"], {}, SCRIPT, b"no option '--mirage-chains'"),
        (["--mirage-policy=a b"], {}, SCRIPT, b"'a b' is no name of a policy"),
        (["--mirage-overlap-price=-1"], {}, SCRIPT, b"is a number from 0 to 100, not '-1'"),
        ([], {}, "#!/bin/sh\n#MIRAGE --until=x\ntrue\n", b"unknown setting in a #MIRAGE line"),
    ],
)
def test_what_cannot_be_a_chain_is_refused_and_not_submitted(
    slurm: FakeSlurm, words: list[str], env: dict[str, str], script: str, sentence: bytes
) -> None:
    slurm.script(script)
    done = slurm.sbatch("--mirage-chain=3", *words, "job.sh", env=env)
    assert (done.returncode, done.stdout) == (1, b"")
    assert sentence in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert slurm.calls() == []


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        (["--mirage-chain=3", "nowhere.sh"], ["nowhere.sh"]),
        (["--mirage-chain=3", "--test-only", "job.sh"], ["--test-only", "job.sh"]),
        (["--mirage-chain=3", "--bogus", "job.sh"], ["--bogus", "job.sh"]),
        (["--mirage-chain=3", "dos.sh"], ["dos.sh"]),
        (["--mirage-chain=3", "bare.sh"], ["bare.sh"]),
        (["--mirage-chain=3", "--wrap=true", "job.sh"], ["--wrap=true", "job.sh"]),
    ],
)
def test_what_sbatch_has_its_own_words_for_goes_to_sbatch(
    slurm: FakeSlurm, words: list[str], passed: list[str]
) -> None:
    slurm.script(SCRIPT)
    slurm.script("#!/bin/sh\r\ntrue\r\n", "dos.sh")
    slurm.script("true\n", "bare.sh")
    slurm.sbatch(*words)
    (call,) = slurm.calls()
    assert call.argv == passed
    assert slurm.chains() == []


def test_a_chain_adds_a_comment_and_replaces_the_script(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\n#SBATCH --comment='from the script'\ntrue\n")
    slurm.sbatch("-N2", "--mirage-chain=2", "-J", "n", "job.sh", "a b", "-N3")
    (chain,) = slurm.chains()
    assert slurm.calls()[0].argv == [
        "-N2",
        "-J",
        "n",
        f"--comment=from the script mirage:{chain.name}:1",
        f"{chain}/carrier/job.sh",
        f"mirage:{chain.name}:1",
        "a b",
        "-N3",
    ]


def test_a_heterogeneous_job_gets_the_comment_in_its_first_component(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    slurm.sbatch("-N1", ":", "-N2", "--", "job.sh", env={"MIRAGE_CHAIN": "2"})
    (chain,) = slurm.chains()
    tag = f"mirage:{chain.name}:1"
    assert slurm.calls()[0].argv == [
        *["-N1", f"--comment={tag}", ":", "-N2", "--", f"{chain}/carrier/job.sh", tag]
    ]


def test_the_chain_directory_is_the_users_alone(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    slurm.sbatch("--mirage-chain=2", "job.sh", env={"SECRET": "s", "SLURM_X": "1", "SBATCH_Y": "2"})
    (chain,) = slurm.chains()
    assert stat.S_IMODE(chain.stat().st_mode) == 0o700
    for path in (chain / "env", chain / "argv", chain / "carrier" / "job.sh"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    saved = (chain / "env").read_bytes().split(b"\0")
    assert b"SECRET=s" in saved
    assert b"SBATCH_Y=2" in saved
    assert not [entry for entry in saved if entry.startswith(b"SLURM_")]


@pytest.mark.parametrize("mode", ["file", "world-writable", "below one", "by a link below one"])
def test_without_a_place_for_the_chain_the_job_is_submitted_all_the_same(
    slurm: FakeSlurm, mode: str
) -> None:
    slurm.script(SCRIPT)
    state = slurm.root / "state"
    if mode == "file":
        state.write_text("")
    elif "below one" in mode:
        (slurm.root / "open" / "deep" / "state").mkdir(parents=True)
        (slurm.root / "open").chmod(0o777)
        state = slurm.root / "open" / "deep" / "state"
        if "link" in mode:
            (slurm.root / "link").symlink_to(state)
            state = slurm.root / "link"
    else:
        state.mkdir()
        state.chmod(0o777)
    done = slurm.sbatch("--mirage-chain=2", "job.sh", env={"MIRAGE_STATE_DIR": str(state)})
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert done.stderr.endswith(b"submitted without a chain\n")
    assert done.stderr.count(b"\n") == 1
    assert slurm.calls()[0].argv == ["job.sh"]


def test_a_place_for_the_chain_below_a_sticky_directory_will_do(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    (slurm.root / "open").mkdir()
    (slurm.root / "open").chmod(0o1777)
    state = slurm.root / "open" / "deep" / "state"
    slurm.sbatch("--mirage-chain=2", "job.sh", env={"MIRAGE_STATE_DIR": str(state)})
    assert len(list(state.iterdir())) == 1


def test_switched_off_it_strips_its_options_and_is_sbatch(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\n#MIRAGE --chain=3\ntrue\n")
    slurm.sbatch("--mirage-chain=3", "job.sh", env={"MIRAGE_DISABLE": "1"})
    assert slurm.calls()[0].argv == ["job.sh"]


def test_a_carrier_is_not_carried_again(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\n#MIRAGE --chain=3\ntrue\n")
    slurm.sbatch("job.sh")
    (chain,) = slurm.chains()
    slurm.sbatch(str(chain / "carrier" / "job.sh"))
    assert slurm.calls()[1].argv == [str(chain / "carrier" / "job.sh")]


def test_two_wrappers_on_one_path_reach_the_real_one(slurm: FakeSlurm) -> None:
    other = slurm.root / "other"
    shutil.copytree(PLUGIN, other, ignore=shutil.ignore_patterns("__pycache__"))
    slurm.script(SCRIPT)
    path = f"{other}:{slurm.environ['PATH']}"
    done = slurm.sbatch("job.sh", program=other / "sbatch", env={"PATH": path})
    assert done.stdout == b"Submitted batch job 101\n"


class Service(HTTPServer):
    """Keeps what was posted; answers with `code`, and once `is_silent` at the end alone. It takes
    no body with one of the names `unheard`."""

    code = 201
    unheard: frozenset[str] = frozenset()
    is_silent = False
    body = b""
    seen: tuple[str, dict[str, str], bytes] | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.over = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen = (self.path, dict(self.headers), body)
        if self.server.is_silent:
            self.server.over.wait()
            return
        is_misread = not self.server.unheard.isdisjoint(json.loads(body))
        self.send_response(422 if is_misread else self.server.code)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def registrar() -> object:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def test_the_service_is_told_and_shown_who_asks(slurm: FakeSlurm, registrar: Service) -> None:
    slurm.script(SCRIPT)
    url = f"http://127.0.0.1:{registrar.server_port}"
    words = ["--mirage-chain=5", "--mirage-policy=average", "--mirage-overlap-price=0.25"]
    done = slurm.sbatch(*words, "job.sh", patient=True, env={"MIRAGE_URL": url})
    (chain,) = slurm.chains()
    told = b"mirage: chain %s: 5 links\n" % (chain.name.encode(),)
    assert (done.stdout, done.stderr) == (b"Submitted batch job 101\n", told)
    assert registrar.seen is not None
    path, headers, body = registrar.seen
    assert path == "/api/v1/chains"
    assert headers["Authorization"] == "MUNGE MUNGE:credential:"
    assert headers["Idempotency-Key"] == chain.name
    assert json.loads(body) == {
        "chain_id": chain.name,
        "job_id": 101,
        "links": 5,
        "policy": "average",
        "overlap_price": 0.25,
        "style": "sequential",
        "max_returns": 2,
    }
    payload = (slurm.root / "payload").read_text()
    assert payload.startswith("POST /api/v1/chains ")
    assert (len(payload.split()[2]), (chain / "unregistered").exists()) == (64, False)


@pytest.mark.parametrize("unheard", [{"max_returns"}, {"max_returns", "style"}])
def test_a_service_that_is_older_than_some_names_is_told_the_rest(
    slurm: FakeSlurm, registrar: Service, unheard: set[str]
) -> None:
    slurm.script(SCRIPT)
    registrar.unheard = frozenset(unheard)
    env = {"MIRAGE_URL": f"http://127.0.0.1:{registrar.server_port}"}
    done = slurm.sbatch("--mirage-chain=5", "job.sh", patient=True, env=env)
    assert done.stderr.endswith(b": 5 links\n")
    assert registrar.seen is not None
    names = {"chain_id", "job_id", "links", "policy", "overlap_price", "style", "max_returns"}
    assert json.loads(registrar.seen[2]).keys() == names - unheard


@pytest.mark.parametrize(
    ("words", "conf", "told"),
    [
        (["--mirage-returns=5"], "", 5),
        (["--mirage-returns=0"], "", 0),
        (["--mail-type=END"], "", 0),
        ([], "max_returns = 1\n", 1),
        (["--mirage-returns=5"], "max_returns = 7\n", 5),
        ([], "max_returns = some\n", 0),
        (["--mirage-style=wait"], "", None),
    ],
)
def test_the_service_is_told_how_often_links_may_give_their_nodes_back(
    slurm: FakeSlurm, registrar: Service, words: list[str], conf: str, told: int | None
) -> None:
    slurm.script(SCRIPT)
    path = slurm.root / "client.conf"
    path.write_text(conf)
    env = {"MIRAGE_URL": f"http://127.0.0.1:{registrar.server_port}"}
    env |= {"MIRAGE_CLIENT_CONF": str(path)}
    slurm.sbatch("--mirage-chain=5", *words, "job.sh", patient=True, env=env)
    assert registrar.seen is not None
    assert json.loads(registrar.seen[2]).get("max_returns") == told


def test_a_chain_too_many_is_submitted_and_the_service_says_why(
    slurm: FakeSlurm, registrar: Service
) -> None:
    slurm.script(SCRIPT)
    registrar.code = 429
    why = "you have 2 chains that have not ended"
    registrar.body = json.dumps({"status": 429, "detail": why}).encode()
    url = f"http://127.0.0.1:{registrar.server_port}"
    done = slurm.sbatch("--mirage-chain=5", "job.sh", patient=True, env={"MIRAGE_URL": url})
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    (chain,) = slurm.chains()
    assert registrar.seen is not None
    kept = chain / "unregistered"
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (registrar.seen[2] + b"\n", 0o600)
    assert done.stderr.decode() == (
        f"mirage: chain {chain.name} is not registered (429: {why}). The chain runs all the"
        " same: its links plan by themselves until a service answers one of them\n"
    )
    status = subprocess.run(
        [PLUGIN / "mirage-link", "status", chain.name],
        check=True,
        capture_output=True,
        text=True,
        env=slurm.environ,
    ).stdout
    assert status.endswith(f"service\tnot registered: 429: {why}\n")


@pytest.mark.parametrize(
    ("trouble", "quiet"),
    [
        *[("down", []), ("silent", []), ("refusing", []), ("garbage", [])],
        *[("down", ["--parsable"]), ("down", ["-Q"])],
    ],
)
def test_a_service_in_trouble_costs_one_line(
    slurm: FakeSlurm, registrar: Service, trouble: str, quiet: list[str]
) -> None:
    slurm.script(SCRIPT)
    registrar.code = 503 if trouble == "refusing" else 201
    registrar.is_silent = trouble == "silent"
    url = f"http://127.0.0.1:{registrar.server_port}"
    if trouble in ("down", "garbage"):
        url = "http://127.0.0.1:1" if trouble == "down" else "nonsense"
    words = [*quiet, "--mirage-chain=5", "job.sh"]
    done = slurm.sbatch(*words, patient=trouble != "silent", env={"MIRAGE_URL": url})
    assert (b"no answer in 1.8 s" in done.stderr) == registrar.is_silent
    assert done.returncode == 0
    assert done.stdout in (b"Submitted batch job 101\n", b"101\n")
    assert done.stderr.count(b"\n") == (0 if quiet else 1)


def test_chain_ids_differ_and_sort_by_time(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    for _ in range(3):
        slurm.sbatch("--mirage-chain=2", "job.sh")
    names = [path.name for path in slurm.chains()]
    assert len(set(names)) == 3
    assert all(len(name) == 20 and name == name.lower() for name in names)
    assert all(is_made_for(ChainId(name), os.getuid()) for name in names)
    assert not any(is_made_for(ChainId(name), os.getuid() + 1) for name in names)
    started = [Path(path).stat().st_mtime for path in slurm.chains()]
    assert started == sorted(started) or started[-1] - started[0] < 1.0
