"""alice's chains on the real Slurm, each in a folder of its own, as hand-over tests drive them."""

from __future__ import annotations

import importlib
import os
import pwd
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.counted_chain import Chain
from tests.support.slurm_testbed import Testbed, python_for_users

LIMIT_S = 60.0
JOB = """#!/bin/sh
#SBATCH --time=5 --output={home}/link.out --mem=100M --open-mode=append
export PLUGIN={home}/../plugin
{exports}
unset MIRAGE_FLOOR # of links of minutes
case $MIRAGE_LINK in {own} esac
{body}
"""


@dataclass
class RealChain(Chain):
    """A chain that the real Slurm starts; `prove` checks the same as for any chain."""

    name: str = ""
    testbed: Testbed = field(default_factory=Testbed)

    def __post_init__(self) -> None:
        """Nothing stands in for Slurm here."""

    @property
    def dir(self) -> Path:
        (directory,) = (path.parent for path in (self.root / "state").glob("*/ends"))
        return directory

    def saved(self) -> dict[str, Any]:
        if not (self.dir / "torch").exists():
            return super().saved()
        state = importlib.import_module("torch").load(self.checkpoint)
        assert state["model"]["weight"].item() == state["step"], "a step was lost or done twice"
        return {"step": state["step"], "lineage": [1] * state["step"]}

    def get(self, name: str) -> str:
        path = self.dir / name
        return path.read_text().strip() if path.is_file() else ""

    def job(self, link: int) -> int:
        return int(self.get(f"jobs/{link}") or 0)

    def at(self, name: str) -> int:
        """Return when that file was last written, 0 if it is absent."""
        path = self.dir / name
        return int(path.stat().st_mtime) if path.exists() else 0

    def has_waited(self, link: int) -> bool:
        words = (line.partition(": hand-over waits")[::2] for line in self.get("log").splitlines())
        return any(f" link {link} job" in subject and reason for subject, reason in words)

    def pids(self, link: int) -> tuple[int, int]:
        """Return the process ids of the program, and of the carrier that started it."""
        pid, carrier = self.get(f"pids.{link}").split()
        return int(pid), int(carrier)

    def free_standby(self, link: int) -> None:
        """Clear the standby's dependency, as Mirage does."""
        words = ["scontrol", "update", f"JobId={self.job(link)}", "Dependency="]
        self.testbed.run(words, user="alice")

    def until(self, condition: object, what: str, limit_s: float = LIMIT_S) -> None:
        assert callable(condition)
        try:
            self.testbed.wait_until(condition, limit_s, f"{self.name}: {what}")
        except Exception as error:
            out = self.root / "link.out"
            error.add_note(out.read_text()[-2000:] if out.exists() else "no output")
            error.add_note(self.get("log"))
            raise

    def story(self) -> str:
        return self.get("log")


@dataclass
class Alice:
    testbed: Testbed
    home: Path
    url: str = "http://127.0.0.1:9"  # nothing listens there

    @classmethod
    @contextmanager
    def at_home(cls, testbed: Testbed) -> Iterator[Alice]:
        home = Path(tempfile.mkdtemp(prefix="hand-over-", dir=pwd.getpwnam("alice").pw_dir))
        shutil.copytree(PLUGIN, home / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
        _give(home)
        try:
            yield cls(testbed, home)
        finally:
            testbed.cancel_all()
            shutil.rmtree(home, ignore_errors=True)

    def submit(  # noqa: PLR0913 - a chain's own words
        self,
        name: str,
        body: str,
        *,
        links: int = 2,
        style: str = "switch",
        options: tuple[str, ...] = (),
        exports: Mapping[str, str] | None = None,
        own: Mapping[int, Mapping[str, str]] | None = None,
    ) -> RealChain:
        """Submit a chain whose links run `body`; `own`: further variables of single links."""
        root = self.home / name
        (root / "state").mkdir(parents=True)
        variables = {
            "STALE_S": "2",
            "MIRAGE_HANDOVER_POLL_S": "0.1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        variables |= python_for_users()[1] | dict(exports or {})
        job = JOB.format(
            home=root,
            exports=f"export {_settings(variables)}",
            own=" ".join(f"{n}) export {_settings(v)} ;;" for n, v in (own or {}).items())
            or "0) ;;",
            body=body,
        )
        (root / "job.sh").write_text(job)
        _give(root)
        environment = {
            "PATH": f"{self.home}/plugin:{self.testbed.env('alice')['PATH']}",
            "MIRAGE_STATE_DIR": str(root / "state"),
            "MIRAGE_STYLE": style,
            "MIRAGE_MAX_OVERLAP": "4:00:00",  # of links of minutes that are freed at once
            "MIRAGE_MIN_RUNTIME": "0",  # links of seconds that are killed are no fast failures
            "MIRAGE_URL": self.url,
        }
        words = ["sbatch", f"--mirage-chain={links}", *options, "job.sh"]
        self.testbed.run(words, user="alice", cwd=root, env=environment)
        return RealChain(root=root, style=style, name=name, testbed=self.testbed)


def _settings(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def _give(folder: Path) -> None:
    entry = pwd.getpwnam("alice")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, entry.pw_uid, entry.pw_gid)
