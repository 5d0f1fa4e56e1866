"""`mirage_slurm.submit`: which words reach sbatch, what each link runs, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm, Link

ODD = ["printf", "%s|", "a b", "$HOME `id`", "it's", '"', "*", "", "two\nlines", "-n"]


@pytest.fixture
def python(plugin: Callable[[str], Any], slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package as a user's program imports it, on the fake Slurm."""
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(slurm.root / "home")
    return plugin("mirage_slurm")


def find_link(slurm: FakeSlurm) -> Link:
    (chain,) = slurm.chains()
    (carrier,) = (chain / "carrier").iterdir()
    return Link(slurm=slurm, shell=("sh",), carrier=carrier, chain=chain)  # noqa: S604


def test_each_link_runs_the_command_word_by_word(python: Any, slurm: FakeSlurm) -> None:
    chain = python.submit(ODD, chain=3)
    assert chain.directory == str(slurm.chains()[0])
    link = find_link(slurm)
    for index in (1, 2):
        arguments = slurm.calls()[index - 1].argv
        assert arguments[-len(ODD) :] == ODD
        assert link.run(index, *ODD).stdout == "".join(f"{word}|" for word in ODD[2:]).encode()
    assert list((slurm.root / "tmp").iterdir()) == [], "the first script was a temporary file"


def test_options_are_keywords(python: Any, slurm: FakeSlurm) -> None:
    python.submit(
        ["./train", "--time=1"],
        chain=2,
        time="48:00:00",
        cpus_per_task=4,
        exclusive=True,
        requeue=None,
        hold=False,
        constraint="a&b|c; rm",
        continue_=["TIMEOUT", "NODE_FAIL"],
        never_overlap=True,
        output=Path("logs") / "%j",
    )
    call = slurm.calls()[0]
    assert call.argv[:5] == [
        *("--time=48:00:00", "--cpus-per-task=4", "--exclusive", "--constraint=a&b|c; rm"),
        "--output=logs/%j",
    ]
    assert "--job-name=train" in call.argv
    assert call.argv[-2:] == ["./train", "--time=1"]
    assert not [word for word in call.argv if word.startswith("--mirage")]
    settings = slurm.chains()[0].joinpath("carrier/command").read_text()
    assert "mirage_continue='TIMEOUT,NODE_FAIL'\n" in settings
    assert "mirage_max_overlap='0'\n" in settings


@pytest.mark.parametrize(
    ("options", "variables"),
    [({"job_name": "mine"}, {}), ({}, {"SBATCH_JOB_NAME": "mine"})],
)
def test_a_name_that_the_user_chose_stays(
    python: Any,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    variables: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    python.submit(["true"], chain=2, **options)
    names = [word for word in slurm.calls()[0].argv if word.startswith("--job-name")]
    assert names == [f"--job-name={value}" for value in options.values()]


def test_the_lines_of_a_script_count(python: Any, slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\n#SBATCH --time=7\necho link $MIRAGE_LINK $1\n").chmod(0o755)
    python.submit(["./job.sh", "a b"], chain=2)
    link = find_link(slurm)
    assert b"\n#SBATCH --time=7\n" in slurm.calls()[0].script
    assert link.carrier.name == "job.sh"
    assert link.run(1, "a b").stdout == b"link 1 a b\n"


@pytest.mark.parametrize(
    ("command", "options", "sentence"),
    [
        ("python train.py", {"chain": 2}, "give the command as a list of words"),
        ([], {"chain": 2}, "the command is empty"),
        ([b"true"], {"chain": 2}, "is a text without NUL"),
        (["true", "a\0b"], {"chain": 2}, "is a text without NUL"),
        (["true"], {}, "give the number of links"),
        (["true"], {"chain": 2, "N": 2}, "write the long name"),
        (["true"], {"chain": 2, "a b": 2}, "write the long name"),
        (["true"], {"chain": 2, "parsable": True}, "submit() returns a Chain"),
        (["true"], {"chain": 2, "wrap": "id"}, "the command is the first argument"),
        (["true"], {"chain": 2, "partition": {"a": "b"}}, "a text, a number or a list of texts"),
        (["true"], {"chain": 2, "comment": "a\0b"}, "a text without NUL"),
    ],
)
def test_arguments_of_another_form_are_refused_in_a_sentence(
    python: Any, slurm: FakeSlurm, command: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        python.submit(command, **options)
    assert sentence in str(error.value)
    assert slurm.calls() == []


def test_what_the_wrapper_refuses_is_an_error_with_its_sentence(
    python: Any, slurm: FakeSlurm
) -> None:
    with pytest.raises(python.ChainError, match="a job array cannot be a chain; nothing was"):
        python.submit(["true"], chain=2, array="1-3")
    slurm.answers(stderr="sbatch: error: no such partition\n", code=1)
    with pytest.raises(python.ChainError, match="sbatch: error: no such partition"):
        python.submit(["true"], chain=2, partition="nowhere")
    assert slurm.chains() == []


def test_a_job_without_a_chain_is_an_error_that_names_the_job(
    python: Any, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_STATE_DIR", "/proc/nowhere")
    with pytest.raises(python.ChainError, match=r"job 101 .* may run once only: mirage: .*without"):
        python.submit(["true"], chain=2)


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [("MIRAGE_DISABLE", "unset it"), ("SLURM_MIRAGE_PLAIN", "no chain begins inside a link")],
)
def test_where_no_chain_can_begin_nothing_is_submitted(
    python: Any,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    sentence: str,
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(python.ChainError, match=sentence):
        python.submit(["true"], chain=2)
    assert slurm.calls() == []


def test_inside_a_link_nothing_is_submitted(
    python: Any, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = python.submit(["true"], chain=3)
    Path(chain.directory, "started", "1").write_text("101\n")
    for name, value in (
        ("MIRAGE_DIR", chain.directory),
        ("MIRAGE_LINK", "1"),
        ("SLURM_JOB_ID", "101"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(python.ChainError, match="no chain begins inside a link"):
        python.submit(["false"], chain=3)
    assert len(slurm.calls()) == 1


def test_each_sbatch_loads_nothing_of_it() -> None:
    """The wrapper imports the package at each call."""
    program = (
        "import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1])\n"
        "import mirage_slurm\n"
        "assert set(sys.modules) - before == {'mirage_slurm'}, set(sys.modules) - before\n"
        "from mirage_slurm.wrapper import main\n"
        "assert 'mirage_slurm.api' not in sys.modules\n"
        "from mirage_slurm import *\n"
        "assert Chain is mirage_slurm.Chain and callable(submit)\n"
        "assert not hasattr(mirage_slurm, 'no_such_name')\n"
    )
    subprocess.run([sys.executable, "-IS", "-c", program, PLUGIN], check=True)
