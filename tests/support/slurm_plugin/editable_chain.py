"""Chains that a test may edit: settings in the head of the carrier, and files of earlier links."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.slurm_plugin.fakes import FakeSlurm, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class EditableLink(Link):
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def set(self, **settings: object) -> None:
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
        """Write the files of a link that has run and ended, and that Slurm has forgotten."""
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
        """Signal every process of the job, as scancel --full does."""
        self.signal_job(process, name)

    def strike(self) -> None:
        """End the processes that a failed test has left."""
        for process in self.processes:
            if process.returncode is None:
                self.signal(process, "KILL")
                process.communicate()


MakeChain = Callable[..., EditableLink]


def chains(slurm: FakeSlurm, shell: Sequence[str]) -> Iterator[MakeChain]:
    """For a fixture: yield a function that submits a chain of `links` links with these settings."""
    links_made: list[EditableLink] = []

    def submit(
        script: str = "#!/bin/sh\necho ran\n", *, links: int = 9, **settings: object
    ) -> EditableLink:
        slurm.script(script)
        link = EditableLink.submitted(slurm, shell, f"--mirage-chain={links}", "job.sh")
        assert isinstance(link, EditableLink)
        links_made.append(link)
        link.set(**settings)
        return link

    yield submit
    for link in links_made:
        link.strike()
