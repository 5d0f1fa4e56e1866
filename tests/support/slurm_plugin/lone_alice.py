"""alice on the real Slurm without a service: her links do everything by themselves."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import PLUGIN
from tests.support.slurm_testbed import Testbed

NOBODY = "http://127.0.0.1:9"
"""Nothing listens there."""
LINK = """#!/bin/bash
#SBATCH --nodes=1 --time=5 --output=chain.out
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing}"
[ ! -e fail ] || exit 1
until [ -e go.$MIRAGE_LINK ]; do sleep 0.1; done
echo "end $MIRAGE_LINK"
"""


@dataclass(frozen=True, slots=True)
class Alice:
    """alice, at a directory of her own, with a copy of the plugin that she may read."""

    testbed: Testbed
    home: Path

    @classmethod
    @contextmanager
    def at_home(cls, testbed: Testbed, name: str, script: str = LINK) -> Iterator[Alice]:
        """Make a new folder in her home, with the script that `submit` submits."""
        entry = pwd.getpwnam("alice")
        home = Path(entry.pw_dir) / f"lone-{name}"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        shutil.copytree(PLUGIN, home / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
        (home / "state").mkdir()
        (home / "link.sh").write_text(script)
        for path in (home, *home.rglob("*")):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        yield cls(testbed, home)
        testbed.cancel_all()
        shutil.rmtree(home, ignore_errors=True)

    @property
    def _own(self) -> dict[str, str]:
        """Her variables. sacct's answers are cached for an hour, so each test has its own cache."""
        variables = {
            "MIRAGE_STATE_DIR": f"{self.home}/state",
            "XDG_CACHE_HOME": f"{self.home}/cache",
        }
        return variables | {"MIRAGE_URL": NOBODY}

    def write(self, name: str, text: str) -> None:
        (self.home / name).write_text(text)

    def sbatch(
        self,
        *words: str,
        wrapped: bool = True,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the wrapped sbatch from PATH, or the real one. A failure raises nothing."""
        variables = self.testbed.env("alice")
        path = f"{self.home}/plugin:{variables['PATH']}" if wrapped else variables["PATH"]
        return self.testbed.run(
            ["sbatch", *words],
            user="alice",
            check=False,
            input=stdin,
            cwd=self.home,
            env={"PATH": path, **self._own, **(env or {})},
        )

    def run(self, *words: str) -> str:
        """Run a command as alice. A first word that names a file of the plugin is that file."""
        program = self.home / "plugin" / words[0]
        process = self.testbed.run(
            [str(program) if program.exists() else words[0], *words[1:]],
            user="alice",
            cwd=self.home,
            env=self._own,
        )
        return process.stdout

    def submit(self, *words: str, links: int) -> None:
        self.run("sbatch", f"--mirage-chain={links}", *words, "link.sh")

    def asks_each_second(self) -> None:
        """Make links of later chains that wait ask Slurm each second."""
        piece = self.home / "plugin/mirage_slurm/carrier/files.sh"
        piece.write_text("mirage_pace_s=1\n" + piece.read_text())

    @property
    def chain(self) -> Path:
        (chain,) = (self.home / "state").iterdir()
        return chain

    def says(self, name: str) -> str | None:
        path = self.chain / name
        return path.read_text().strip() if path.exists() else None

    def job(self, index: int) -> int:
        self.until(lambda: self.says(f"jobs/{index}") is not None, f"link {index} in the queue")
        return int(self.says(f"jobs/{index}") or "")

    def let_end(self, *links: int) -> None:
        for link in links:
            (self.home / f"go.{link}").touch()

    def lines(self) -> list[str]:
        """Return the lines that the links' scripts have written, without Mirage's."""
        return [line for line in self.output() if line.startswith(("begin", "end"))]

    def output(self) -> list[str]:
        path = self.home / "chain.out"
        return path.read_text().splitlines() if path.exists() else []

    def await_empty_queue(self, cluster_s: float) -> None:
        self.until(lambda: not self.run("squeue", "-h", "-u", "alice"), "an empty queue", cluster_s)

    def until(self, predicate: Callable[[], bool], what: str, cluster_s: float = 40) -> None:
        self.testbed.wait_until(predicate, cluster_s, what)

    def free(self, job: int) -> None:
        """Clear a job's dependency, as Mirage does for a standby that is to start early."""
        self.run("scontrol", "update", f"JobId={job}", "Dependency=")

    def state(self, job: int) -> str:
        return self.testbed.state(job)

    def await_state(self, job: int, state: str) -> None:
        self.until(lambda: self.state(job) == state, f"job {job} {state}")

    def await_lines(self, *lines: str) -> None:
        self.until(lambda: self.lines() == list(lines), f"{lines}, not {self.lines()}")
