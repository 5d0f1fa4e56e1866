"""Every long option of the sbatch that is there, in each of its spellings, as that sbatch reads it.

The truth is getopt's own: what it says of an option without a value, and of one with a value. No
call of these submits anything: none has a script.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slurm

SCRIPT = "job.sh"
NOTHING, MAYBE, VALUE = "-", "?", "="

Ask = Callable[[str], str]


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """No daemon is needed: sbatch reads its words before it asks anybody."""
    found = shutil.which("sbatch")
    assert found is not None
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    monkeypatch.setenv("SLURM_CONF", str(conf))
    return found


def _kind(real: str, name: str) -> str | None:
    """What it takes; None where getopt knows no such name, or several."""
    without = _said(real, f"--{name}")
    if "unrecognized option" in without or "is ambiguous" in without:
        return None
    if "requires an argument" in without:
        return VALUE
    return NOTHING if "doesn't allow an argument" in _said(real, f"--{name}=x") else MAYBE


def _said(real: str, word: str) -> str:
    done = subprocess.run(
        [real, word],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={name: os.environ[name] for name in ("PATH", "SLURM_CONF")},
    )
    return done.stderr


def test_each_option_is_read_as_this_sbatch_reads_it(
    real: str, plugin: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    options, ask = plugin("mirage_slurm.wrapper.options"), plugin("mirage_slurm.wrapper.discovery")
    known = ask.find_options(real, {**os.environ, "HOME": str(tmp_path)})
    assert known is not options.TABLE, "it did not answer"
    names = [name for name in sorted(known.names) if "help" not in name]
    there = {name: kind for name in names if (kind := _kind(real, name)) is not None}
    assert len(there) > 90
    wrong = [
        (words, told)
        for name, kind in there.items()
        for words in _spelled(name, kind)
        if (told := options.read_words(words, known)).script != words.index(SCRIPT)
        or told.not_understood is not None
    ]
    assert wrong == []


def test_each_abbreviation_is_read_as_this_sbatch_reads_it(
    real: str, plugin: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    ask = plugin("mirage_slurm.wrapper.discovery")
    known = ask.find_options(real, {**os.environ, "HOME": str(tmp_path)})
    short = {name[:length] for name in known.names for length in range(2, len(name))}
    wrong = []
    for given in sorted(short - {"he", "hel", "us", "usa", "usag", "vers", "versi", "versio"}):
        full = known.find_full_name(given)
        mine = None if full is None else known.get_kind(full)
        # What we do not know is told, and is sbatch's to judge. What we know has to be right in
        # whether the next word is its value.
        if mine is None:
            continue
        theirs = _kind(real, given)
        if theirs is None or (theirs == VALUE) != (mine == VALUE):
            wrong.append((given, full, mine, theirs))
    assert wrong == []


def _spelled(name: str, kind: str) -> Iterator[list[str]]:
    if kind == VALUE:
        yield [f"--{name}", "x", SCRIPT]
    else:
        yield [f"--{name}", SCRIPT]
    if kind != NOTHING:
        yield [f"--{name}=x", SCRIPT]
