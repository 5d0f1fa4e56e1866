"""Bad input: what the `mirage` command says, and its exit code. Each is a process of its own."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.database.schema.tables import SCHEMA, VERSION_TABLE
from mirage.policies.registry import NAMES
from tests.support.mirage_process import Answer, QuietSlurm, configured, run


def said(answer: Answer, code: int) -> str:
    """The sentence on standard error: nothing on standard output, no traceback."""
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert answer.err.startswith("mirage: ")
    assert answer.err.count("\n") == 1
    return answer.err.removeprefix("mirage: ").rstrip("\n")


def usage(answer: Answer) -> str:
    """The complaint in the box that the command line parser draws, as one line."""
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    _, _, box = answer.err.partition("Error")
    return " ".join(box.replace("│", " ").split())


@pytest.mark.parametrize("words", [("config", "check"), ("serve",), ("db", "upgrade"), ("mode",)])
def test_every_fault_of_a_configuration_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "mirage.toml"
    path.write_text(
        'colour = "red"\n[service]\nport = 99999\nprot = 1\n'
        '[polling]\nqueue_s = "often"\n[provision]\npolicy = "best"\n'
    )
    answer = run(*words, "--config", str(path))
    assert (answer.code, answer.out) == (2, "")
    first, *faults = answer.err.splitlines()
    names = f"{', '.join(NAMES)}, models/NAME, models/NAME/VERSION"
    assert first == f"mirage: {path}: 5 faults"
    assert faults == [
        "  line 1: unknown key 'colour'",
        "  line 3: service.port = 99999: Input should be less than or equal to 65535 "
        "(allowed: >= 0, <= 65535)",
        "  line 4: unknown key 'service.prot': is 'service.port' meant?",
        "  line 6: polling.queue_s = 'often': Input should be a valid integer, "
        "unable to parse string as an integer (allowed: > 0, <= 2678400)",
        f"  line 8: provision.policy = 'best': no policy has this name (allowed: {names})",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[service\nport = 1\n", "not TOML: Expected ']' at the end of a table declaration"),
        (b"port: 6480\n", "not TOML: "),
        (b"name = '\xff'\n", "not UTF-8: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_configuration_that_is_not_toml(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "mirage.toml"
    path.write_bytes(content)
    answer = run("config", "check", "--config", str(path))
    assert answer.code == 2
    assert answer.err.startswith(f"mirage: {path}: {expected}")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "expected"), [("none.toml", "No such file or directory"), ("", "Is a directory")]
)
def test_a_configuration_that_cannot_be_read(tmp_path: Path, name: str, expected: str) -> None:
    path = tmp_path / name
    expected = f"mirage: {path}: cannot be read: {expected}\n"
    for answer in (
        run("config", "show", "--config", str(path)),
        run("config", "show", MIRAGE_CONFIG=str(path)),
    ):
        assert (answer.code, answer.out, answer.err) == (2, "", expected)


def test_serve_without_slurm_says_what_to_do(config: Path, tmp_path: Path) -> None:
    answer = run("serve", "--config", str(config), PATH=str(tmp_path))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "mirage: PATH: no squeue, sinfo, sacct, scontrol, scancel: "
        "run on a host with Slurm's client commands, or set PATH\n"
    )


def test_before_the_first_upgrade_serve_and_mode_ask_for_it(
    config: Path, slurm: QuietSlurm, tmp_path: Path
) -> None:
    for words in (("serve",), ("mode",), ("mode", "act")):
        sentence = said(run(*words, "--config", str(config), PATH=slurm.path), 4)
        assert sentence == (
            f"the state directory {tmp_path}/state does not exist: "
            "set service.state_dir, or make it with `mirage db upgrade`"
        )
        assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("words", [("serve",), ("mode",)])
def test_a_database_without_a_schema(
    config: Path, slurm: QuietSlurm, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "state").mkdir()
    sentence = said(run(*words, "--config", str(config), PATH=slurm.path), 4)
    assert sentence == (
        f"the database {tmp_path}/state/mirage.db has no schema yet: run `mirage db upgrade`"
    )


def test_serve_where_others_may_pull_the_kill_switch(
    config: Path, slurm: QuietSlurm, tmp_path: Path
) -> None:
    assert run("db", "upgrade", "--config", str(config)).code == 0
    (tmp_path / "state").chmod(0o777)
    sentence = f"others may write in {tmp_path}/state: run `chmod go-w {tmp_path}/state`"
    answer = run("serve", "--config", str(config), PATH=slurm.path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"mirage: service.state_dir: {sentence}\n"
    answer = run("doctor", "--no-moves", "--json", "--config", str(config), PATH=slurm.path)
    (found,) = [f for f in json.loads(answer.out)["findings"] if f["what"] == "database"]
    assert (answer.code, found["verdict"], sentence in found["told"]) == (1, "fault", True)


def at_schema(config: Path, number: str) -> None:
    assert run("db", "upgrade", "--config", str(config)).code == 0
    with closing(sqlite3.connect(config.parent / "state" / "mirage.db")) as database:
        database.execute(f"UPDATE {VERSION_TABLE} SET version_num = ?", (number,))  # noqa: S608
        database.commit()


@pytest.mark.parametrize("words", [("serve",), ("mode",)])
def test_a_database_of_an_older_schema(
    config: Path, slurm: QuietSlurm, tmp_path: Path, words: tuple[str, ...]
) -> None:
    at_schema(config, "0000")
    sentence = said(run(*words, "--config", str(config), PATH=slurm.path), 4)
    assert sentence == (
        f"the database {tmp_path}/state/mirage.db has schema 0000, "
        f"this program needs {SCHEMA}: run `mirage db upgrade`"
    )


@pytest.mark.parametrize("words", [("serve",), ("mode",), ("db", "upgrade")])
def test_a_database_of_a_newer_schema(
    config: Path, slurm: QuietSlurm, tmp_path: Path, words: tuple[str, ...]
) -> None:
    at_schema(config, "9999")
    sentence = said(run(*words, "--config", str(config), PATH=slurm.path), 4)
    assert sentence == (
        f"the database {tmp_path}/state/mirage.db has schema 9999, newer than {SCHEMA}, the newest "
        "this program knows: use the Mirage that upgraded it, or a later one"
    )


def test_a_state_directory_below_a_file(config: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    sentence = said(run("db", "upgrade", "--config", str(config)), 4)
    assert sentence == f"the state directory {tmp_path}/state cannot be created: File exists"
    configured(tmp_path / "state" / "deeper", at=config)
    sentence = said(run("db", "upgrade", "--config", str(config)), 4)
    assert (
        sentence
        == f"the state directory {tmp_path}/state/deeper/state cannot be created: Not a directory"
    )


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A directory that may not be written."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "state").mkdir(mode=0o555)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


def test_a_state_directory_that_may_not_be_written(closed: Path, config: Path) -> None:
    command = ("db", "upgrade", "--config", str(config))
    configured(closed, at=config)
    assert said(run(*command, by_modes=True), 4) == (
        f"cannot use the database {closed}/state/mirage.db: "
        f"the directory {closed}/state is not writable"
    )
    configured(closed / "none", at=config)
    sentence = said(run(*command, by_modes=True), 4)
    assert (
        sentence == f"the state directory {closed}/none/state cannot be created: Permission denied"
    )


def test_a_database_elsewhere_needs_no_state_directory(
    closed: Path, config: Path, tmp_path: Path
) -> None:
    configured(closed / "none", at=config)
    command = ("db", "upgrade", "--config", str(config))
    url = f"sqlite:///{tmp_path}/mirage.db"
    assert run(*command, by_modes=True, MIRAGE_DATABASE_URL=url).code == 0


@pytest.mark.parametrize("url", ["mysql://me:hunter2@h/d", "hunter2"])
def test_a_database_url_of_no_known_kind(config: Path, url: str) -> None:
    sentence = said(run("mode", "--config", str(config), MIRAGE_DATABASE_URL=url), 2)
    assert "the database URL" in sentence
    assert "hunter2" not in sentence


@pytest.mark.parametrize("links", ["0", "-1", "1001", "999999999999", "many", "3.5"])
def test_chains_of_no_length_or_an_absurd_one(links: str, tmp_path: Path) -> None:
    answer = run("chain", "submit", "--links", links, "job.sh", cwd=tmp_path)
    assert "Invalid value for '--links'" in usage(answer)


def real_sbatch(tmp_path: Path) -> Path:
    """A stand-in for Slurm's own, which says what that says of a script that is not there."""
    path = tmp_path / "sbatch"
    path.write_text(
        "#!/bin/sh\nfor word; do :; done\n"
        '[ -f "$word" ] || { echo "sbatch: error: Unable to open file $word" >&2; exit 1; }\n'
        "echo Submitted batch job 1\n"
    )
    path.chmod(0o755)
    return path


def test_a_script_that_does_not_exist(tmp_path: Path) -> None:
    sbatch = real_sbatch(tmp_path)
    answer = run(
        *("chain", "submit", "--links", "3", "no-such.sh"),
        cwd=tmp_path,
        MIRAGE_REAL_SBATCH=str(sbatch),
        HOME=str(tmp_path),
    )
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "sbatch: error: Unable to open file no-such.sh\n"
    assert not list(tmp_path.glob(".local/state/mirage/*")), "nothing of a chain is left"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--preset gigantic", "no preset 'gigantic': use one of light, medium, heavy"),
        ("--preset light --trace jobs.psv", "--trace replays a log, and --preset and --seed make"),
        ("--nodes 5", "--nodes 5 is too many: cluster lab has 4 nodes"),
        ("--from 2030-01-01", "--from 2030-01-01 00:00:00 lies outside the load"),
        ("--from 2026-02-02 --until 2026-02-01", "--until 2026-02-01 00:00:00 must lie after"),
        ("--from 2026-02-02 --until 2026-02-04", "no hand-over fits: the first chains are"),
        ("--trace jobs.psv", "no hand-over fits: the first chains are submitted at 2023-11-28"),
        ("--trace jobs.psv --from 2023-11-20", "from 2023-11-14 22:13:21 to 2023-11-14 22:13:22"),
        ("--trace wide.psv", "wide.psv has no job that fits the 4 nodes of the cluster"),
    ],
)
def test_demo_that_cannot_begin(words: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text('[cluster]\nname = "lab"\nnodes = 4\n')
    for name, nodes in (("jobs.psv", 1), ("wide.psv", 5)):
        rows = [f"{i}|17000000{i:02}|1700000100|1700000200|{nodes}|COMPLETED" for i in (1, 2)]
        lines = ["JobIDRaw|Submit|Start|End|NNodes|State", *rows]
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    command = ("demo", "--once", "--port", "0", "--cluster", "lab.toml", *words.split())
    assert expected in said(run(*command, cwd=tmp_path, TMPDIR=str(tmp_path)), 2)
    assert not list(tmp_path.glob("mirage-demo-*")), "refused before anything is made"


def test_a_log_without_its_machine(tmp_path: Path) -> None:
    sentence = said(run("demo", "--once", "--trace", "jobs.psv", cwd=tmp_path), 2)
    assert sentence == "--trace needs --cluster FILE, which describes the machine of the log"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("demo", "--links", "1"), "'--links'"),
        (("demo", "--from", "yesterday"), "'--from'"),
        (("demo", "--port", "65536"), "'--port'"),
        (("demo", "--seed", "-1"), "'--seed'"),
        (("mode", "attack"), "'attack' is not one of 'observe', 'shadow', 'act'"),
        (("serve", "--prot", "1"), "No such option: --prot"),
        (("chain", "pause"), "Missing argument"),
        (("ingest", "x.parquet"), "Missing option '--cluster'"),
        (("nonsense",), "No such command 'nonsense'"),
    ],
)
def test_wrong_words_are_explained(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert expected in usage(run(*words, cwd=tmp_path))
