"""Two links of a chain, of which the second starts while the first is at work.

A second of the links' sleep is a hundredth.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from tests.support.log_lines import read_whole_lines
from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain

Pair = Callable[..., tuple[EditableLink, subprocess.Popen[bytes]]]
WORKS = """#!/bin/sh
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing} <$MIRAGE_STYLE>" >>$HOME/lines
until [ -e $HOME/end.$MIRAGE_LINK ]; do sleep 0.05; done
echo "end $MIRAGE_LINK" >>$HOME/lines
"""
SHOW_CONFIG = """#!/bin/sh
case $* in
"show config") printf 'KillWait                = {wait} sec\\nOverTimeLimit     = {over}\\n' ;;
*) printf '%s\\n' "$*" >>{{home}}/updated ;;
esac
"""


def lines(link: EditableLink) -> list[str]:
    return read_whole_lines(link.slurm.root / "home" / "lines")


def let_end(link: EditableLink, index: int) -> None:
    (link.slurm.root / "home" / f"end.{index}").touch()


def waits(link: EditableLink, index: int = 2) -> bool:
    return f"link {index} job {100 + index}: waits for link" in link.logged()


def pairs(chain: MakeChain) -> Pair:
    """For a fixture: a function that submits a chain and starts its first link. The test may start
    the second link then."""

    def make(
        script: str = WORKS, **settings: object
    ) -> tuple[EditableLink, subprocess.Popen[bytes]]:
        link = chain(script, **settings)
        link.slurm.sleeps_briefly()
        end = int(time.time()) + 3600
        first = link.start(1, env={"SLURM_JOB_END_TIME": str(end)})
        standby_file = "beat/1" if {"mode", "presubmit"} & settings.keys() else "jobs/2"
        wait_until(lambda: link.says("began/1") is not None and link.says(standby_file) is not None)
        link.slurm.job_is(101, "RUNNING", start=end - 14400, end=end)
        return link, first

    return make


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, (out + err).decode()
