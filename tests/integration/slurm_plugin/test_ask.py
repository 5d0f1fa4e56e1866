"""The wrapper asks the sbatch that is there which options it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm

SCRIPT = "#!/bin/sh\ntrue\n"
AUTOCOMPLETE = (
    "--array=\n--help\n--nodes=\n--brand-new\n--colour=\n--tint=\n--tint \n--requeue=\n--requeue \n"
    "--hidden-value=\n\n"
)
HELP = """Usage: sbatch [OPTIONS(0)...] script(0) [args(0)...]

  -a, --array=indexes         job array index values
      --brand-new             goes with --colour=red and
                              --nothing-of-its-own=x
  -Z, --colour=name           paint the job
      --tint[=name]           paint it lightly
      --requeue[=kind]        as it says
      --export[=names]        which the table knows better
Options provided by plugins:
      --site-value=arg        of this site's plug-in
      --site-flag             likewise
"""
USAGE = """Usage: sbatch [-N nnodes] [--shade file] [--gleam[=x]] [--dull]
              executable [args...]
"""
EVERY_WAY = ("--autocomplete=--", "--help", "--usage")


@pytest.fixture
def slurm(slurm: FakeSlurm) -> FakeSlurm:
    """A busy machine may take longer to answer than the two seconds that a user waits."""
    return replace(slurm, patient=True)


@pytest.fixture(params=["23.02 and later", "before"])
def asked(slurm: FakeSlurm, request: pytest.FixtureRequest) -> FakeSlurm:
    """An sbatch of another release, which lists all its options exactly or only as help does."""
    if request.param != "before":
        slurm.says_of_itself("--autocomplete=--", AUTOCOMPLETE)
    slurm.says_of_itself("--help", HELP)
    slurm.says_of_itself("--usage", USAGE)
    slurm.script(SCRIPT)
    return slurm


def _lie(kept: Path) -> str:
    """With it, a new option would take the script for its value."""
    return re.sub("^brand-new .$", "brand-new =", kept.read_text(), flags=re.MULTILINE)


def cache(slurm: FakeSlurm) -> Path:
    (kept,) = (slurm.root / "home" / ".cache" / "mirage").iterdir()
    return kept


@pytest.mark.parametrize(
    "words",
    [
        ["--brand-new"],
        ["--colour", "red"],
        ["--colour=red"],
        ["--colo", "red"],
        ["--tint"],
        ["--tint=red"],
        ["-Z", "red"],
        ["-Zred"],
        ["-HZ", "red"],
        ["--requeue=expedite"],
        ["--site-value", "x"],
        ["--site-flag"],
        ["--shade", "file"],
        ["--gleam"],
        ["--gleam=2"],
        ["--dull"],
        ["--export", "NONE"],
        ["--brand-new", "--colour", "red", "--tint", "-N", "2"],
    ],
    ids=" ".join,
)
def test_a_newer_releases_option_leaves_a_chain_a_chain(asked: FakeSlurm, words: list[str]) -> None:
    done = asked.sbatch(*words, "--mirage-chain=3", "job.sh", "argument")
    assert done.returncode == 0
    assert b"no chain" not in done.stderr
    (call,) = asked.calls()
    assert len(asked.chains()) == 1
    held = [word.replace("-HZ", "-H") for word in words]
    assert call.argv[: len(words)] == words or set(held) & set(call.argv)
    assert call.argv[-1] == "argument"


def test_what_help_leaves_out_is_known_where_sbatch_lists_all(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    slurm.says_of_itself("--autocomplete=--", AUTOCOMPLETE)
    slurm.sbatch("--hidden-value", "x", "--mirage-chain=2", "job.sh")
    assert len(slurm.chains()) == 1


@pytest.mark.parametrize("line", ["--brand-new --array=1-3", "--colour red --array=1-3"])
def test_a_directive_line_is_read_to_its_end(asked: FakeSlurm, line: str) -> None:
    asked.script(f"#!/bin/sh\n#SBATCH {line}\ntrue\n", "array.sh")
    done = asked.sbatch("--mirage-chain=3", "array.sh")
    assert b"a job array cannot be a chain" in done.stderr
    assert asked.calls() == []


def test_a_script_that_asks_for_a_chain_is_found_behind_a_new_option(asked: FakeSlurm) -> None:
    asked.script("#!/bin/sh\n#MIRAGE --chain=2\ntrue\n", "asks.sh")
    asked.sbatch("--colour", "job.sh", "asks.sh")
    assert len(asked.chains()) == 1


def test_another_name_of_an_option_means_that_option(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    done = slurm.sbatch("--cluster=a,b", "--mirage-chain=2", "job.sh")
    assert b"a chain stays on one cluster" in done.stderr


def test_a_shell_that_completes_words_begins_no_chain(slurm: FakeSlurm) -> None:
    slurm.says_of_itself("--autocomplete=--", AUTOCOMPLETE)
    done = slurm.sbatch("--autocomplete=--", env={"MIRAGE_CHAIN": "2"})
    assert (done.stdout, done.stderr) == (AUTOCOMPLETE.encode(), b"")
    assert (slurm.sbatch_was_asked(), slurm.calls()) == (["--autocomplete=--"], [])


def test_nothing_is_asked_where_the_table_leaves_no_doubt(asked: FakeSlurm) -> None:
    asked.sbatch("-N2", "--time=10", "--mirage-chain=2", "job.sh")
    asked.sbatch("--partition", "p", "job.sh", "--brand-new")
    assert asked.sbatch_was_asked() == []


def test_a_binary_is_asked_once_and_again_when_it_is_another(asked: FakeSlurm) -> None:
    for _ in range(3):
        asked.sbatch("--brand-new", "--mirage-chain=2", "job.sh")
    assert sorted(asked.sbatch_was_asked()) == sorted(EVERY_WAY)
    binary = asked.root / "bin" / "sbatch"
    os.utime(binary, ns=(1, 1))
    asked.sbatch("--brand-new", "--mirage-chain=2", "job.sh")
    assert sorted(asked.sbatch_was_asked()) == sorted(EVERY_WAY * 2)
    assert len(asked.chains()) == 4


def test_it_is_kept_where_the_user_keeps_such_things(asked: FakeSlurm, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    asked.sbatch("--dull", "job.sh", env={"XDG_CACHE_HOME": str(place)})
    (kept,) = (place / "mirage").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (place / "mirage").stat().st_mode & 0o777 == 0o700
    assert not (asked.root / "home" / ".cache").exists()


@pytest.mark.parametrize("how", ["mode", "link", "folder", "pipe", "garbage", "cut"])
def test_what_somebody_else_may_have_written_is_not_believed(
    asked: FakeSlurm, how: str, tmp_path: Path
) -> None:
    asked.sbatch("--dull", "job.sh")
    kept = cache(asked)
    lie = (
        kept.read_text().replace("brand-new ?", "brand-new =").replace("brand-new -", "brand-new =")
    )
    kept.write_text(lie)
    if how == "mode":
        kept.chmod(0o666)
    elif how == "link":
        kept.rename(tmp_path / "theirs")
        kept.symlink_to(tmp_path / "theirs")
    elif how == "folder":
        kept.parent.chmod(0o777)
    elif how == "pipe":
        kept.unlink()
        os.mkfifo(kept)
    else:
        kept.write_text(lie + "what is this?\n" if how == "garbage" else lie[:-1])
    asked.sbatch("--brand-new", "--mirage-chain=2", "job.sh")
    assert len(asked.chains()) == 1
    assert len(asked.sbatch_was_asked()) == 2 * len(EVERY_WAY)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_another_users_file_is_not_believed(asked: FakeSlurm) -> None:
    asked.sbatch("--dull", "job.sh")
    kept = cache(asked)
    kept.write_text(
        kept.read_text().replace("brand-new ?", "brand-new =").replace("new -", "new =")
    )
    os.chown(kept, 65534, 65534)
    asked.sbatch("--brand-new", "--mirage-chain=2", "job.sh")
    assert len(asked.chains()) == 1


def test_without_a_place_to_keep_it_it_is_asked_each_time(asked: FakeSlurm) -> None:
    (asked.root / "home" / ".cache").write_text("a file")
    for _ in range(2):
        asked.sbatch("--brand-new", "--mirage-chain=2", "job.sh")
    assert len(asked.chains()) == 2
    assert len(asked.sbatch_was_asked()) == 2 * len(EVERY_WAY)


def test_an_sbatch_that_says_nothing_leaves_the_table(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    for words in (["--requeue=expedite"], ["--spread-segments"], ["--resources", "x"]):
        slurm.sbatch(*words, "--mirage-chain=2", "job.sh")
    assert len(slurm.chains()) == 3
    done = slurm.sbatch("--unheard-of", "--mirage-chain=2", "job.sh")
    assert b"sbatch does not list the option '--unheard-of': no chain is made" in done.stderr
    asked = len(slurm.sbatch_was_asked())
    slurm.sbatch("--unheard-of", "job.sh")
    assert len(slurm.sbatch_was_asked()) == asked, "asked again at once"
    os.utime(cache(slurm), (0, 0))
    slurm.sbatch("--unheard-of", "job.sh")
    assert len(slurm.sbatch_was_asked()) > asked


def test_an_sbatch_that_hangs_is_left_and_its_children_with_it(slurm: FakeSlurm) -> None:
    """All questions together have two seconds; a child that keeps the output open is no reason."""
    slurm.script(SCRIPT)
    hung = shutil.which("sleep")
    slurm.command(
        "sbatch",
        f"#!/bin/sh\ncase $1 in --autocomplete*|--help|--usage) {hung} 600 & {hung} 600;; esac\n"
        "echo Submitted batch job 7\n",
    )
    began = time.monotonic()
    done = replace(slurm, patient=False).sbatch("--unheard-of", "--mirage-chain=2", "job.sh")
    assert time.monotonic() - began < 300
    assert done.stdout == b"Submitted batch job 7\n"


def test_an_sbatch_without_an_end_fills_no_disk(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    written = slurm.root / "written"
    slurm.command(
        "sbatch",
        "#!/bin/sh\ncase $1 in --autocomplete*|--help|--usage)\n"
        "    head -c 8000000 /dev/zero\n"
        f"    stat -Lc %s /dev/fd/3 3>&1 >>{written};;\nesac\necho Submitted batch job 7\n",
    )
    assert slurm.sbatch("--unheard-of", "--mirage-chain=2", "job.sh").returncode == 0
    assert max(map(int, written.read_text().split())) <= 1 << 20


@pytest.mark.parametrize(
    ("lie", "words"), [("--nodes\n", ["--nodes", "2"]), ("--hold=\n", ["--hold"])]
)
def test_an_sbatch_that_takes_a_value_away_is_not_believed(
    slurm: FakeSlurm, lie: str, words: list[str]
) -> None:
    slurm.script(SCRIPT)
    slurm.says_of_itself("--autocomplete=--", f"--brand-new\n{lie}")
    slurm.sbatch("--brand-new", *words, "--mirage-chain=2", "job.sh")
    assert len(slurm.chains()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody without an account")
@pytest.mark.parametrize("room", ["tmp", "proc"])
def test_who_has_no_account_and_no_room_has_options_all_the_same(tmp_path: Path, room: str) -> None:
    """As in a container, which knows no account of its user, with nothing that they may write."""
    shutil.copytree(PLUGIN, tmp_path / "plugin", ignore=shutil.ignore_patterns("spank"))
    code = (
        "import os, pwd, re, resource, subprocess, sys, tempfile, zlib;"
        "sys.path.insert(0, 'plugin'); from mirage_slurm.wrapper import discovery;"
        f"tempfile.tempdir = '/{room}'; os.setuid(54321);"
        "print(discovery.find_options('/bin/true', {}).get_kind('nodes'))"
    )
    words = [sys.executable, "-B", "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("=\n", "")
