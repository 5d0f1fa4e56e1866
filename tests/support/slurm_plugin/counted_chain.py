"""Links as plain processes, a stand-in for squeue, and checks that every chain must pass."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.log_lines import read_whole_lines
from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.counting_link import load

PROGRAM = Path(__file__).with_name("counting_link.py")
STEPS = 24
FIRST_JOB = 100

# A job runs while its process does, unless a test sets another answer; a zombie has ended.
SQUEUE = r"""#!/bin/sh
echo "$*" >>{root}/asked
[ ! -f {root}/squeue.sh ] || . {root}/squeue.sh
while [ $# -gt 0 ]; do
    [ "$1" != -j ] || job=$2
    shift
done
[ ! -f {root}/says.$job ] || exec cat {root}/says.$job
read -r pid <{root}/pid.$job || {{
    echo "slurm_load_jobs error: Invalid job id specified" >&2
    exit 1
}}
case $(sed 's/.*) //' /proc/$pid/stat 2>/dev/null) in
'' | Z* | X*) echo "FAILED  0" ;;
*) echo "RUNNING  0" ;;
esac
"""


@dataclass
class Chain:
    """Start links with `start`; `run_on` is Slurm: it starts the next when one has ended."""

    root: Path
    style: str = "switch"
    limit_s: float = 500.0
    links: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for name in ("bin", "chain"):
            (self.root / name).mkdir(mode=0o700)
        squeue = self.root / "bin" / "squeue"
        squeue.write_text(SQUEUE.format(root=self.root))
        squeue.chmod(0o755)

    @property
    def dir(self) -> Path:
        return self.root / "chain"

    @property
    def checkpoint(self) -> Path:
        return self.dir.parent / "model.ckpt"

    def start(self, link: int, *, script: str = "", **env: str) -> subprocess.Popen[bytes]:
        """`script` is shell, with $count for the counting link; the default is that alone."""
        job = FIRST_JOB + link
        words = ["sh", "-c", script] if script else [sys.executable, str(PROGRAM), str(STEPS)]
        with (self.root / f"out.{link}").open("ab") as out:
            process = subprocess.Popen(
                words,
                env={
                    "PATH": f"{self.root}/bin:{PLUGIN}:/usr/bin:/bin",
                    "PLUGIN": str(PLUGIN),
                    "MIRAGE_DIR": str(self.dir),
                    "MIRAGE_LINK": str(link),
                    "MIRAGE_STYLE": self.style,
                    "MIRAGE_HANDOVER_POLL_S": "0.02",
                    "SLURM_JOB_ID": str(job),
                    "count": f"{sys.executable} {PROGRAM} {STEPS}",
                    "verb": f"{sys.executable} {PROGRAM}",
                    **env,
                },
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        (self.root / f"pid.{job}").write_text(f"{process.pid}\n")
        self.links[link] = process
        return process

    def slurm_says(self, link: int, state: str, restarts: int = 0) -> None:
        (self.root / f"says.{FIRST_JOB + link}").write_text(f"{state}  {restarts}\n")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.limit_s
        while not condition():
            self.read_checkpoint()
            assert time.monotonic() < deadline, (
                f"not within {self.limit_s} s: {what}\n{self.story()}"
            )
            time.sleep(0.005)

    def run_on(self, *, most: int = 8) -> None:
        """Start the next link whenever the newest has ended, as afterany does, until `done`."""

        def is_done() -> bool:
            newest = max(self.links)
            if not self.done and self.over(newest) and newest < most:
                self.start(newest + 1)
            return self.done and all(self.over(link) for link in self.links)

        self.wait(is_done, "the end of the chain")

    def over(self, link: int) -> bool:
        return self.links[link].poll() is not None

    def stopped(self, link: int) -> bool:
        stat = Path(f"/proc/{self.links[link].pid}/stat")
        return stat.exists() and stat.read_text().rpartition(") ")[2].startswith("T")

    def halted(self, link: int) -> bool:
        return self.over(link) or self.stopped(link)

    def resume(self, link: int) -> None:
        os.kill(self.links[link].pid, signal.SIGCONT)

    def squeue(self, shell: str) -> None:
        """Make squeue run this shell code at each question; "" makes it normal again."""
        script = self.root / "squeue.sh"
        script.with_suffix(".new").write_text(shell + "\n")
        script.with_suffix(".new").rename(script)

    def asked_slurm(self) -> int:
        path = self.root / "asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def verdict(self, link: int) -> str:
        return (self.dir / "handover" / "verdict" / str(link)).read_text()

    def committed_by(self, number: int) -> bool:
        return any(writer == number for _, writer, _ in self.lines("commit"))

    @property
    def done(self) -> bool:
        return (self.dir / "done").exists()

    def lines(self, *kinds: str) -> list[tuple[str, int, int]]:
        """Return (kind, number of the writer's lease, step), in the order they were written."""
        rows = [line.split() for line in read_whole_lines(self.dir / "lines")]
        lines = [(kind, int(token.split("-")[0]), int(step)) for kind, token, step in rows]
        return [row for row in lines if not kinds or row[0] in kinds]

    def steps_of(self, number: int) -> int:
        return sum(1 for _, writer, _ in self.lines("step") if writer == number)

    def read_checkpoint(self) -> int:
        """Return the step of the checkpoint. Raises ValueError if the checkpoint is torn."""
        return int(load(self.checkpoint)["step"]) if self.checkpoint.exists() else 0

    def saved(self) -> dict[str, Any]:
        """Return the last checkpoint: the step, and the lease under which each step was done."""
        return load(self.checkpoint)

    def story(self) -> str:
        log = self.dir / "log"
        parts = [log.read_text() if log.exists() else "no log"]
        parts += [f"{p.name}: {p.read_text()[-1500:]}" for p in sorted(self.root.glob("out.*"))]
        return "\n".join([*parts, *map(str, self.lines()[-20:])])

    def strike(self) -> None:
        for process in self.links.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def prove(self, *, each_step_once: bool = False) -> None:
        """Check: one writer at a time, no checkpoint lost or torn, and the work is complete."""
        lines = self.lines("step", "commit")
        writers = [number for _, number, _ in lines]
        assert writers == sorted(writers), f"two writers at once\n{self.story()}"
        commits = [step for kind, _, step in lines if kind == "commit"]
        assert commits == sorted(commits), f"a checkpoint went back\n{self.story()}"
        state = self.saved()
        assert state["step"] == commits[-1] == STEPS
        assert len(state["lineage"]) == STEPS
        assert state["lineage"] == sorted(state["lineage"])
        assert not list(self.checkpoint.parent.glob(".model.ckpt.mirage-*")), (
            "something staged was left"
        )
        steps = [step for kind, _, step in lines if kind == "step"]
        assert set(steps) == set(range(1, STEPS + 1))
        if each_step_once:
            assert steps == list(range(1, STEPS + 1))
