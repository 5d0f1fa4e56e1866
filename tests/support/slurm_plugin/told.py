"""Chains whose links are told things: settings in the carrier's head, what earlier links left."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.slurm_plugin.fakes import FakeSlurm, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLink(Link):
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def told(self, **settings: object) -> None:
        """Put settings into the carrier's head, behind those that the wrapper wrote."""
        words = "".join(f"mirage_{name}='{value}'\n" for name, value in settings.items())
        head, mark, rest = self.carrier.read_bytes().partition(b"# The carrier: ")
        before, offset, after = head.partition(b"mirage_offset=")
        grown = b"%010d" % (int(after[:10]) + len(words.encode()))
        self.carrier.write_bytes(
            before + offset + grown + after[10:] + words.encode() + mark + rest
        )

    def has(self, name: str, text: object) -> None:
        """Write a file of the chain as a link of it would."""
        (self.chain / name).write_text(f"{text}\n")

    def ran(self, index: int, end: str, *, seconds: int = 1000) -> None:
        """Leave what a link leaves that has run and ended, and is known to Slurm no more."""
        job = 100 + index
        files = {"jobs": job, "started": job, "ends": end, "ran": seconds}
        for folder, text in files.items():
            self.has(f"{folder}/{index}", text)
        queue = self.slurm.root / "queue"
        lines = queue.read_text().splitlines(keepends=True)
        queue.write_text("".join(line for line in lines if not line.startswith(f"{job} ")))

    def says(self, name: str) -> str | None:
        path = self.chain / name
        return path.read_text().strip() if path.exists() else None

    def logged(self) -> str:
        return self.says("log") or ""

    def start(
        self, index: int = 1, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        process = Link.start(self, index, *arguments, env=env)
        self.processes.append(process)
        return process

    def signal(self, process: subprocess.Popen[bytes], name: str) -> None:
        """To every process of the job, as scancel --full does."""
        self.signal_job(process, name)

    def strike(self) -> None:
        """End what a test that failed has left."""
        for process in self.processes:
            if process.returncode is None:
                self.signal(process, "KILL")
                process.communicate()


MakeChain = Callable[..., ToldLink]


def chains(slurm: FakeSlurm, shell: Sequence[str]) -> Iterator[MakeChain]:
    """For a fixture: submit a chain of `links` links of `script` with these settings."""
    made: list[ToldLink] = []

    def submit(
        script: str = "#!/bin/sh\necho ran\n", *, links: int = 9, **settings: object
    ) -> ToldLink:
        slurm.script(script)
        link = ToldLink.submitted(slurm, shell, f"--mirage-chain={links}", "job.sh")
        assert isinstance(link, ToldLink)
        made.append(link)
        link.told(**settings)
        return link

    yield submit
    for link in made:
        link.strike()
