"""The program `mirage` of mirage-slurm alone: no mirage-provisioner, and mostly no service."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mirage.shipped_files import load_client_module
from mirage.web.api.schemas import chain_schemas
from tests import needed
from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm, Link

grammar = load_client_module("command.grammar")
instants = load_client_module("command.instants")
plugin_path = load_client_module("command.plugin_path")

SCRIPT = "#!/bin/sh\necho link $MIRAGE_LINK\n"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "mirage"
from mirage_slurm.command.main import main
main()
"""
ALONE = (sys.executable, "-I", "-S", "-c", PROGRAM, str(PLUGIN))
"""Isolated and without site-packages: the standard library and the plugin's folder."""


@pytest.fixture
def link(slurm: FakeSlurm) -> Link:
    """A chain whose first link has ended, and whose second waits."""
    slurm.script(SCRIPT)
    made = Link.submitted(slurm, ["sh"], "--mirage-chain=3", "job.sh")
    made.run(1)
    return made


def mirage(slurm: FakeSlurm, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in slurm.environ.items() if name != "MIRAGE_URL"}
    plain |= {"MIRAGE_CLIENT_CONF": "/dev/null", "XDG_STATE_HOME": "/nonexistent", "COLUMNS": "120"}
    return subprocess.run(
        [*ALONE, *words], env=plain | more, capture_output=True, text=True, check=False
    )


def asked(slurm: FakeSlurm, *words: str) -> str:
    done = mirage(slurm, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_users_chains_are_listed_from_their_directories(link: Link) -> None:
    listed = mirage(link.slurm, "chain", "list", "--me")
    assert listed.returncode == 0
    assert "no service is named on this host: this is what " in listed.stderr
    (row,) = [line for line in listed.stdout.splitlines() if link.chain.name in line]
    for cell in ("active", "1 of 3", "job.sh", "exit 0"):
        assert f" {cell} " in row
    assert asked(link.slurm, "chain", "list", "--state", "paused") == "no chains\n"


@pytest.mark.parametrize("word", ["", "prefix", "101"])
def test_a_chain_is_shown_by_its_id_its_letters_its_job_or_alone(link: Link, word: str) -> None:
    words = [link.chain.name[:5] if word == "prefix" else word] if word else []
    shown = asked(link.slurm, "chain", "show", *words)
    assert "│ 1    │ 101 │ exit 0  │" in shown
    assert "│ 2    │ 102 │ standby │" in shown
    found = json.loads(asked(link.slurm, "chain", "show", *words, "--json"))
    assert [(one["index"], one["job_id"]) for one in found["links"]] == [(1, 101), (2, 102)]


def read_json(slurm: FakeSlurm, verb: str, *words: str) -> Any:
    return json.loads(asked(slurm, "chain", verb, *words, "--json"))


def test_json_has_the_keys_of_the_services_answers(link: Link) -> None:
    (row,) = read_json(link.slurm, "list")
    shown = read_json(link.slurm, "show")
    (*_, decision) = read_json(link.slurm, "explain")
    assert list(row) == list(chain_schemas.ChainSummary.model_fields)
    assert set(shown) == set(chain_schemas.ChainView.model_fields)
    for one in shown["links"]:
        assert list(one) == list(chain_schemas.LinkView.model_fields)
    view = chain_schemas.DecisionView
    assert list(decision) == [*view.model_fields, *view.model_computed_fields]


def test_json_has_what_the_directory_knows_and_null_for_the_rest(link: Link) -> None:
    before = time.time()
    link.slurm.job_is(101, "COMPLETED", start=0, end=1000)
    link.slurm.job_is(102, "PENDING", reason="Priority")
    shown = read_json(link.slurm, "show")
    assert before - 60 < instants.parse_instant(shown.pop("created_at")) <= before
    assert before - 1 < instants.parse_instant(shown.pop("as_of"))
    first, second = ({k: v for k, v in one.items() if v is not None} for one in shown.pop("links"))
    assert first == {"index": 1, "job_id": 101, "state": "ended", "end_state": "COMPLETED"}
    assert second == {"index": 2, "job_id": 102, "state": "pending", "reason": "Priority"}
    note = shown.pop("note")
    assert {name: value for name, value in shown.items() if value is not None} == {
        "chain_id": link.chain.name,
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "uid": os.geteuid(),
        "state": "active",
        "links_planned": 3,
        "links_started": 1,
        "running": [],
        "presubmit": "next",
        "style": "sequential",
        "mode": "standby",
        "stale": False,
        "max_returns": 2,
    }
    (row,) = read_json(link.slurm, "list")
    assert row.pop("created_at") is not None
    assert row.pop("note") == note
    assert row == {name: shown[name] for name in row}
    newest = read_json(link.slurm, "explain")[0]
    assert newest["reason"] == link.log().splitlines()[-1].partition(" ")[2]
    assert newest["at"] == newest["last_at"]
    assert newest["chain_id"] == link.chain.name


def test_json_says_that_slurm_is_silent_and_calls_no_guess_a_fact(link: Link) -> None:
    (link.slurm.root / "slurm.down").touch()
    shown = read_json(link.slurm, "show")
    assert (shown["stale"], shown["as_of"], shown["running"]) == (True, None, None)


def test_a_user_without_a_chain_is_told_how_to_submit_one(slurm: FakeSlurm) -> None:
    done = mirage(slurm, "chain", "show")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`sbatch --mirage-chain=8 job.sh` submits one" in done.stderr


def test_a_chain_is_listed_whatever_its_script_is_called(slurm: FakeSlurm) -> None:
    name = "a\tb\nc\033[2J.sh"
    slurm.script(SCRIPT, name=name)
    made = Link.submitted(slurm, ["sh"], "--mirage-chain=3", name)
    made.run(1)
    (made.chain / "stop").write_text("by alice: done\twith it\n")
    (row,) = json.loads(asked(slurm, "chain", "list", "--json"))
    assert row["chain_id"] == made.chain.name
    assert row["note"] == "stop: by alice: done\twith it"
    (shown,) = [
        line for line in asked(slurm, "chain", "list").splitlines() if made.chain.name in line
    ]
    for cell in ("a?b?c?[2J.sh", r"stop: by alice: done\twith it"):
        assert f" {cell} " in shown


def test_what_links_wrote_down_is_explained(link: Link) -> None:
    explained = asked(link.slurm, "chain", "explain")
    newest = link.log().splitlines()[-1].partition(" ")[2]
    assert explained.splitlines()[0].endswith(newest)


def test_a_chain_is_cancelled_with_the_waiting_link_first(link: Link) -> None:
    link.slurm.has_queued(990, "a job of the same user")
    done = asked(link.slurm, "chain", "cancel", link.chain.name)
    assert done == f"chain {link.chain.name} is cancelled: job 102, 101 is cancelled\n"
    assert (link.slurm.root / "scancelled").read_text() == "102 101\n"
    assert (link.chain / "stop").exists()
    (found,) = json.loads(asked(link.slurm, "chain", "list", "--json"))
    assert found["state"] == "cancelled"


def test_a_chain_is_paused_and_resumed_by_holds(link: Link) -> None:
    link.slurm.command("scontrol", '#!/bin/sh\necho "$*" >>{home}/told\n')
    assert "is paused: job 102 is held" in asked(link.slurm, "chain", "pause", link.chain.name)
    active = mirage(link.slurm, "chain", "resume", link.chain.name)
    assert (active.returncode, active.stdout) == (1, ""), "nothing was held: no success"
    assert active.stderr.endswith("is active already: its job 102 is not held\n")
    link.slurm.job_is(102, "PENDING", reason="JobHeldUser")
    assert "is active: job 102 is released" in asked(link.slurm, "chain", "resume", link.chain.name)
    assert (link.slurm.root / "told").read_text() == "uhold 102\nrelease 102\n"


def test_a_change_prints_the_whole_chain_for_scripts(link: Link) -> None:
    link.slurm.command("scontrol", "#!/bin/sh\n")
    paused = read_json(link.slurm, "pause", link.chain.name)
    assert set(paused) == set(chain_schemas.ChainView.model_fields)
    assert (paused["state"], paused["note"]) == ("paused", "job 102 is held")


def test_a_cancelling_that_slurm_does_not_hear_stops_the_chain_and_fails(link: Link) -> None:
    (link.slurm.root / "slurm.down").touch()
    done = mirage(link.slurm, "chain", "cancel", link.chain.name)
    assert (done.returncode, done.stdout) == (3, "")
    assert "slurm_load_jobs error. No further link begins; cancel the chain again" in done.stderr
    assert (link.chain / "stop").exists()


@pytest.fixture
def unbegun(slurm: FakeSlurm) -> Link:
    """A chain whose first link is in the queue."""
    slurm.script(SCRIPT)
    return Link.submitted(slurm, ["sh"], "--mirage-chain=3", "job.sh")


@pytest.mark.parametrize("word", ["", "101"])
def test_a_chain_that_has_not_begun_is_cancelled(unbegun: Link, word: str) -> None:
    done = asked(unbegun.slurm, "chain", "cancel", word or unbegun.chain.name)
    assert done == f"chain {unbegun.chain.name} is cancelled: job 101 is cancelled\n"
    assert (unbegun.slurm.root / "scancelled").read_text() == "101\n"


def test_a_chain_that_has_not_begun_is_shown_and_paused(unbegun: Link) -> None:
    unbegun.slurm.command("scontrol", '#!/bin/sh\necho "$*" >>{home}/told\n')
    unbegun.slurm.job_is(101, "PENDING", reason="Priority")
    shown = asked(unbegun.slurm, "chain", "show")
    assert "│ 1    │ 101 │ in the queue (Priority) │" in shown
    assert "is paused: job 101 is held" in asked(
        unbegun.slurm, "chain", "pause", unbegun.chain.name
    )


def test_a_chain_of_another_cluster_is_listed_and_cancelled_there(unbegun: Link) -> None:
    (unbegun.chain / "clusters").write_text("far")
    (unbegun.slurm.root / "elsewhere").write_text("far")
    (row,) = json.loads(asked(unbegun.slurm, "chain", "list", "--json"))
    assert row["state"] == "active"
    unbegun.slurm.command("scancel", '#!/bin/sh\necho "$SLURM_CLUSTERS $*" >{home}/told\n')
    asked(unbegun.slurm, "chain", "cancel", unbegun.chain.name)
    assert (unbegun.slurm.root / "told").read_text() == "far 101\n"


def test_a_stopped_chain_whose_link_still_runs_is_not_resumed(link: Link) -> None:
    (link.chain / "stop").write_text("by alice with mirage-link stop\n")
    done = mirage(link.slurm, "chain", "resume", link.chain.name)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing to resume: the chain is over (by alice" in done.stderr


def test_a_chain_that_is_over_is_not_cancelled_again(link: Link) -> None:
    (link.slurm.root / "queue").write_text("")
    (link.chain / "done").write_text("by alice\n")
    done = asked(link.slurm, "chain", "cancel", link.chain.name)
    assert done == f"chain {link.chain.name} is finished: it had no job\n"
    assert not (link.chain / "stop").exists()


def test_a_chain_that_lost_its_next_link_has_failed_in_the_list_and_alone(link: Link) -> None:
    (link.slurm.root / "queue").write_text("")
    (row,) = json.loads(asked(link.slurm, "chain", "list", "--json"))
    assert row["state"] == "failed"
    assert f"To submit the next link: mirage-link resume {link.chain.name}" in row["note"]
    shown = asked(link.slurm, "chain", "show")
    assert f"chain {link.chain.name} is failed\n" in shown
    assert f"To submit the next link: mirage-link resume {link.chain.name}" in shown


def test_a_chain_whose_user_stopped_it_is_active_while_its_link_runs(link: Link) -> None:
    (link.chain / "stop").write_text("by alice with mirage-link stop\n")
    (row,) = json.loads(asked(link.slurm, "chain", "list", "--json"))
    assert row["state"] == "active"
    (link.slurm.root / "queue").write_text("")
    (row,) = json.loads(asked(link.slurm, "chain", "list", "--json"))
    assert row["state"] == "cancelled"


def test_a_silent_slurm_is_said_and_ends_no_chain_of_the_list(link: Link) -> None:
    (link.slurm.root / "slurm.down").touch()
    listed = mirage(link.slurm, "chain", "list", "--json")
    assert listed.returncode == 0
    assert "in the queue (slurm_load_jobs error): states are by the chains' files" in listed.stderr
    (row,) = json.loads(listed.stdout)
    assert row["state"] == "active"
    assert f"chain {link.chain.name} is active\n" in asked(link.slurm, "chain", "show")


def test_a_list_asks_slurm_no_oftener_for_many_chains_than_for_one(link: Link) -> None:
    for _ in range(2):
        link.slurm.sbatch("--mirage-chain=2", "job.sh")
    for chain in link.slurm.chains():
        (chain / "done").write_text("by alice\n")  # only the queue says whether its link runs
    (link.slurm.root / "questions").unlink()
    rows = json.loads(asked(link.slurm, "chain", "list", "--json"))
    assert len(rows) == 3
    formats = [line.split("-o ")[1] for line in _read_questions(link.slurm)]
    assert formats == ["%k %i %T %r", "%k %i %T %r local"], "by mirage-link, and by the list"


def _read_questions(slurm: FakeSlurm) -> list[str]:
    return (slurm.root / "questions").read_text().splitlines()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("show", "../etc"), 2, "'../etc' is not a chain's id"),
        (("show", "zzz"), 2, "there is no chain zzz"),
        (("list", "--user", "somebodyelse"), 2, "without a service only your own chains are known"),
        (("list", "--url", "http://127.0.0.1:9"), 5, "no service at http://127.0.0.1:9: "),
        (("pause",), 2, "the following arguments are required: CHAIN_ID"),
        (("list", "--limit", "0"), 2, "argument --limit: 0 is less than 1"),
        (("list", "--lim", "3"), 2, "unrecognized arguments: --lim 3"),
        (("nonsense",), 2, "no such command: mirage chain nonsense"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_a_code(
    link: Link, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = mirage(link.slurm, "chain", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_named_service_that_is_away_is_never_replaced_by_directories(link: Link) -> None:
    """Else a script could not tell the service's silence from its answer."""
    done = mirage(link.slurm, "chain", "list", MIRAGE_URL="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (5, "")


@pytest.mark.parametrize("verb", ["serve", "forecast", "mode", "nonsense"])
def test_another_command_says_which_package_has_it(slurm: FakeSlurm, verb: str) -> None:
    done = mirage(slurm, verb, "--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"mirage: `mirage {verb}` is a command of the package mirage-")
    assert f"run `{sys.executable} -m pip install mirage-provisioner`" in done.stderr


def test_commands_inside_a_job_are_those_of_mirage_link(link: Link) -> None:
    done = mirage(link.slurm, "done", MIRAGE_DIR=str(link.chain))
    assert done.returncode == 0, done.stderr
    assert "with mirage-link done" in (link.chain / "done").read_text()


@pytest.mark.parametrize("command", grammar.COMMANDS, ids=lambda command: " ".join(command.words))
def test_help_has_each_option_and_each_example(slurm: FakeSlurm, command: Any) -> None:
    told = asked(slurm, *command.words, "--help")
    for option in command.options:
        assert f"  --{option.name}" in told
    for _, line in command.examples:
        assert f"    {line}\n" in told
    assert max(map(len, told.splitlines())) <= 100


def test_a_chain_is_submitted_by_the_wrapper(slurm: FakeSlurm) -> None:
    script = slurm.script(SCRIPT)
    asked(
        slurm, "chain", "submit", "--exclusive", "--links", "3", "-p", "x", str(script), "--links"
    )
    (chain,) = slurm.chains()
    assert "mirage_links='3'" in (chain / "carrier" / "job.sh").read_text()
    (call,) = slurm.calls()
    assert call.argv[-1] == "--links"
    assert "--exclusive" in call.argv


BASHRC = """# ~/.bashrc: executed by bash(1) for non-login shells.

# If not running interactively, don't do anything
case $- in
    *i*) ;;
      *) return;;
esac
"""


@pytest.mark.parametrize(
    ("text", "line"), [(BASHRC, 4), ('[ -z "$PS1" ] && return\n', 1), ("export A=1\n", 0)]
)
def test_the_place_where_bashrc_ends_early_is_named(slurm: FakeSlurm, text: str, line: int) -> None:
    home = slurm.root / "home"
    (home / ".bashrc").write_text(text)
    done = mirage(slurm, "plugin", "path", "--shell", "bash")
    assert done.stdout == f'export PATH={PLUGIN}:"$PATH"\n'
    note = f"mirage: line {line} of {home}/.bashrc ends the file in shells that are not interactive"
    assert done.stderr.startswith(note) if line else done.stderr == ""


@pytest.mark.parametrize("name", ["sh", "bash", "zsh", "fish", "tcsh"])
def test_each_shell_reads_its_line(name: str, tmp_path: Path) -> None:
    shell = shutil.which(name)
    if shell is None:
        needed.absent(f"no {name}")
    folder = tmp_path / "it's a folder!"
    folder.mkdir()
    (folder / "sbatch").write_text("#!/bin/sh\necho wrapped\n")
    (folder / "sbatch").chmod(0o755)
    line = plugin_path.format_path_line(str(folder), name, "/opt/own bin")
    done = subprocess.run(
        [shell, "-c", f"{line}; sbatch"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("wrapped\n", "")
