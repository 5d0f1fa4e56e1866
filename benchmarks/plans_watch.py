"""Look for what must never happen to chains, in Slurm's answers and in the scripts' own lines.

An offence is a line of text: a lost chain, two standbys, a link that started early, two writers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path

from benchmarks.plans_scene import (
    MARK,
    MINUTE,
    LinkRecord,
    read_chain_id,
    read_links,
    resume_drained_nodes,
)
from tests.support.handover.scene import Scene, ScriptRun

DEFAULT_OVERLAP_S = 4 * 3600
ROUNDING_S = MINUTE
"""Slurm counts time limits, and the minutes of a plan, in whole minutes."""
RESUME_S = 5 * MINUTE
LEAVES_S = 60 * MINUTE
"""A job asks Slurm up to four times before it knows that another job of its link runs. If slurmctld
is away, each question takes ten minutes of the cluster's clock."""
_LOOK_S = 1.0
_LIVE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSpec:
    """A chain of alice's, as she submits it."""

    name: str
    style: str
    limit_min: int
    links: int
    options: tuple[str, ...] = ()
    max_overlap_s: int | None = None
    """As `options` say; None: by default."""

    @property
    def bound_s(self) -> int:
        """How long before its predecessor's end a link may start."""
        if self.max_overlap_s is not None:
            return self.max_overlap_s
        return min(DEFAULT_OVERLAP_S, self.limit_min * MINUTE // 4)

    def submit(self, scene: Scene, env: Mapping[str, str] | None = None) -> str:
        """Submit the chain; return its id, which Slurm shows in the first job's comment."""
        job = scene.submit_chain(
            self.name,
            links=self.links,
            run_s=self.limit_min * MINUTE,
            limit_min=self.limit_min,
            style=self.style,
            options=self.options,
            env=env,
        )
        return read_chain_id(scene, job)


@dataclass(frozen=True, slots=True)
class QueuedLink:
    """A link in squeue's answer."""

    chain: str
    link: int
    job: str
    state: str
    reason: str


@dataclass
class Watch:
    """Looks at alice's queue again and again, and records what is wrong in it."""

    scene: Scene
    chains: dict[str, ChainSpec]
    looks: int = 0
    doubles: dict[str, list[float]] = field(default_factory=dict)
    """By offence: the instants at which two jobs of one link waited."""
    live: set[str] = field(default_factory=set)
    """The chains with a link in the queue, or running, at the last look."""
    killed: set[int] = field(default_factory=set)
    """The jobs that a benchmark has killed: they can submit nothing any more."""
    held: dict[str, QueuedLink] = field(default_factory=dict)
    """By chain: the link that was held at the last look."""
    _looked_at: float = 0.0
    _resumed_at: dict[str, float] = field(default_factory=dict)
    """Until when a chain is left alone: its new job may not have been seen yet."""

    def look(self) -> None:
        """Look at the queue, at most once a second. If slurmctld does not answer, it is no look."""
        if time.monotonic() - self._looked_at < _LOOK_S:
            return
        self._looked_at = time.monotonic()
        words = ["squeue", "-h", "-u", "alice", "-o", "%A|%T|%r|%k"]
        process = self.scene.testbed.run(words, check=False)
        if process.returncode != 0:
            return
        self.looks += 1
        links = _parse_queue(process.stdout)
        self.live = {link.chain for link in links if link.state in _LIVE}
        self.held = {link.chain: link for link in links if "held" in link.reason.lower()}
        waiting = [(link.chain, link.link, link.job) for link in links if link.state == "PENDING"]
        for offence in find_double_standbys(waiting, self.chains):
            self.doubles.setdefault(offence, []).append(self.scene.testbed.now())
        nodes = resume_drained_nodes(self.scene)
        if nodes:
            print(f"Slurm had drained {' '.join(nodes)}: resumed", flush=True)

    def find_offences(self, evidence: Path | None) -> tuple[list[str], list[LinkRecord]]:
        """Look a last time, cancel what is left, and judge: (offences, all runs of links).

        A chain whose last link had no time to submit a successor is resumed first, as its owner
        would do it. `evidence`: a folder for all that chains and service have written.
        """
        self._look_now()
        self._resumed_at.clear()
        self.resume_dead()
        self.release_held()
        self._look_now()
        runs = {chain: self.scene.list_runs(spec.name) for chain, spec in self.chains.items()}
        self.scene.testbed.cancel_all()
        time.sleep(1)  # until accounting has the records
        records = read_links(self.scene)
        if evidence is not None:
            self._save_evidence(evidence, records)
        offences = [
            f"double standby: {offence}, at {len(instants)} looks from {instants[0]:.0f} on"
            for offence, instants in self.doubles.items()
        ]
        offences += [
            f"held: {self.chains[chain].name}, link {link.link}, job {link.job}: {link.reason}"
            for chain, link in self.held.items()
        ]
        for chain, spec in self.chains.items():
            chain_records = [record for record in records if record.chain == chain]
            if chain not in self.live and not has_ended(runs[chain], spec):
                offences.append(
                    f"chain lost: {spec.name} ({chain}) after link {count_links(chain_records)}"
                )
            offences += find_early_links(chain_records, spec)
            offences += find_twin_runs(chain_records, spec)
            offences += find_two_writers(runs[chain], chain_records, spec)
        return offences, records

    def resume_dead(self) -> None:
        """Resume the chains whose last link had no time to submit a successor."""
        for chain, spec in self.chains.items():
            now = self.scene.testbed.now()
            if chain in self.live or not self.looks or now < self._resumed_at.get(chain, 0):
                continue
            is_ended = has_ended(self.scene.list_runs(spec.name), spec)
            if not is_ended and self._has_no_successor(chain):
                answer = self._run_link("resume", chain)
                print(f"{spec.name}: the last link ended before it had submitted the next one; "
                      f"mirage-link resume: {answer}", flush=True)  # fmt: skip
                self._resumed_at[chain] = now + RESUME_S

    def release_held(self) -> None:
        """Release the links that Slurm could not launch, and so holds.

        Their owner would do it, as `mirage-link status` says. Where it does not say so the link
        stays held: that is an offence.
        """
        for chain, link in list(self.held.items()):
            command = ["scontrol", "release", link.job]
            if not is_held_by_slurm(link.reason):
                continue
            if " ".join(command) in self._run_link("status", chain):
                process = self.scene.testbed.run(command, user="alice", check=False)
                print(f"{self.chains[chain].name}: Slurm holds link {link.link}, {link.reason}; "
                      f"{' '.join(command)}: exit {process.returncode} {process.stderr.strip()}",
                      flush=True)  # fmt: skip
                del self.held[chain]  # until the next look

    def _look_now(self) -> None:
        self._looked_at = 0.0
        self.look()

    def _has_no_successor(self, chain: str) -> bool:
        """Return whether the newest link is one that has begun, or was killed: it had no time to
        submit the next one. One that waits for its predecessor, or has tried to give its nodes
        back, has begun, too."""
        folder = self._find_folder(chain)
        newest = max(int(path.name) for path in (folder / "jobs").iterdir() if path.name.isdigit())
        has_begun = any((folder / kind / str(newest)).exists() for kind in ("started", "waits"))
        job = (folder / "jobs" / str(newest)).read_text().strip()
        tried_return = folder / "returns" / str(newest)
        has_tried = tried_return.exists() and tried_return.read_text().split()[1] == job
        return has_begun or has_tried or int(job) in self.killed

    def _run_link(self, verb: str, chain: str) -> str:
        words = [str(self.scene.root / "slurm_plugin" / "mirage-link"), verb, chain]
        env = {"MIRAGE_STATE_DIR": str(self._find_folder(chain).parent)}
        process = self.scene.testbed.run(words, user="alice", env=env, check=False)
        return " ".join(f"{process.stdout} {process.stderr}".split())

    def _find_folder(self, chain: str) -> Path:
        return self.scene.root / "alice" / "state" / chain

    def _save_evidence(self, folder: Path, records: Sequence[LinkRecord]) -> None:
        shutil.copytree(self.scene.root / "alice", folder / "alice", dirs_exist_ok=True)
        shutil.copy(self.scene.root / "mirage" / "serve.log", folder)
        shutil.copy(self.scene.root / "mirage" / "mirage.db", folder)
        shutil.copytree("/var/log/mirage-testbed", folder / "slurm", dirs_exist_ok=True)
        (folder / "links").write_text("\n".join(map(str, records)) + "\n")


def let_pass(scene: Scene, watch: Watch, seconds: float) -> None:
    """Watch for so much of the cluster's time."""
    until = scene.testbed.now() + seconds

    def is_over() -> bool:
        watch.look()
        return scene.testbed.now() >= until

    scene.testbed.wait_until(is_over, 2 * seconds, f"{seconds:.0f} s")


def _parse_queue(text: str) -> list[QueuedLink]:
    """Return the links among squeue's lines: job|state|reason|comment."""
    links = []
    for line in text.splitlines():
        job, state, reason, comment = line.split("|", 3)
        mark = MARK.search(comment)
        if mark is not None:
            links.append(QueuedLink(mark[1], int(mark[2]), job, state, reason))
    return links


def is_held_by_slurm(reason: str) -> bool:
    """Return whether Slurm holds a job since its launch failed.

    A slurmctld that is killed before it has saved a job's start launches the job again, and the
    node refuses.
    """
    return "launch failed" in reason.replace("_", " ")


def find_double_standbys(
    waiting: Sequence[tuple[str, int, str]], chains: Mapping[str, ChainSpec]
) -> list[str]:
    """Return, in words, two waiting jobs of one link, and two waiting links of a chain.

    `waiting`: (chain, link, job). A chain that was submitted as a whole has many waiting links.
    """
    offences = []
    for one, other in pairwise(sorted(waiting)):
        spec = chains.get(one[0])
        if spec is None or one[0] != other[0]:
            continue
        if one[1] == other[1] or "--mirage-presubmit=all" not in spec.options:
            jobs = f"jobs {one[2]} and {other[2]} of links {one[1]} and {other[1]}"
            offences.append(f"{spec.name} ({one[0]}): {jobs}")
    return offences


def has_ended(runs: Sequence[ScriptRun], spec: ChainSpec) -> bool:
    """Return whether the last link's script has begun; the link is not in the queue any more."""
    return any(run.link == spec.links for run in runs)


def count_links(records: Sequence[LinkRecord]) -> int:
    """Return the number of the last link that ran."""
    return max((record.link for record in records if record.start), default=0)


def find_early_links(records: Sequence[LinkRecord], spec: ChainSpec) -> list[str]:
    """Return, in words, the links that began work or held nodes earlier than the bound allows.

    A link that started too early and went back into the queue is no offence: that happens to about
    one in ten of those released for a long wait (docs/reference/chains.md).
    """
    return [
        f"too early: link {record.link} of {spec.name} ({record.chain}, job {record.job}) "
        f"started {early_s} s before the end of its predecessor, bound {spec.bound_s} s"
        for record, early_s in list_early_links(records, spec)
        if not was_sent_back(record, records)
    ]


def list_early_links(
    records: Sequence[LinkRecord], spec: ChainSpec
) -> list[tuple[LinkRecord, int]]:
    """Return the runs that started too early, and how long before their predecessor's end."""
    early_links = []
    for record in records:
        left_s = compute_time_left(record, records)
        if left_s > spec.bound_s + ROUNDING_S:
            early_links.append((record, left_s))
    return early_links


def compute_time_left(record: LinkRecord, records: Sequence[LinkRecord]) -> int:
    """Return what was left of the predecessor's time limit as the link started; 0: it was over.

    The predecessor is the latest earlier link that ran at that moment.
    """
    if record.start is None:
        return 0
    earlier_runs = [
        other
        for other in records
        if other.link < record.link
        and other.start is not None
        and other.start <= record.start < (other.end or record.start)
        and not was_sent_back(other, records)
    ]
    if not earlier_runs:
        return 0
    predecessor = max(earlier_runs, key=lambda other: (other.link, other.start or 0))
    return (predecessor.start or 0) + predecessor.limit_s - record.start


def was_sent_back(record: LinkRecord, records: Sequence[LinkRecord]) -> bool:
    """Return whether another job of the same link was submitted while this one ran."""
    return any(
        other.link == record.link
        and other.job != record.job
        and None not in (record.start, record.end, other.submit)
        and (record.start or 0) <= (other.submit or 0) <= (record.end or 0)
        for other in records
    )


def find_twin_runs(records: Sequence[LinkRecord], spec: ChainSpec) -> list[str]:
    """Return, in words, two jobs of one link that held nodes at once for longer than a job that is
    one too many needs to leave."""
    offences = []
    for one, other, common_s in list_twin_runs(records):
        if common_s > LEAVES_S:
            offences.append(
                f"two jobs: link {one.link} of {spec.name} ran as jobs {one.job} and {other.job} "
                f"at once for {common_s} s"
            )
    return offences


def list_twin_runs(records: Sequence[LinkRecord]) -> list[tuple[LinkRecord, LinkRecord, int]]:
    """Return the pairs of jobs of one link that held nodes at once, and for how many seconds."""
    pairs = []
    runs = [record for record in records if record.start and record.end]
    for one, other in combinations(runs, 2):
        if (one.chain, one.link) == (other.chain, other.link) and one.job != other.job:
            first_end = min(one.end or 0, other.end or 0)
            common_s = first_end - max(one.start or 0, other.start or 0)
            pairs += [(one, other, common_s)] if common_s > 0 else []
    return pairs


def find_two_writers(
    runs: Sequence[ScriptRun], records: Sequence[LinkRecord], spec: ChainSpec
) -> list[str]:
    """Return, in words, the links whose script ran twice, or beside the one before (sequential)."""
    ends = {record.job: record.end for record in records}
    jobs: dict[int, set[int]] = {}
    for run in runs:
        jobs.setdefault(run.link, set()).add(run.job_id)
    offences = [
        f"two runs: link {link} of {spec.name} as jobs {sorted(ids)}"
        for link, ids in jobs.items()
        if len(ids) > 1
    ]
    if spec.style != "sequential":
        return offences
    for earlier, later in pairwise(runs):
        end = earlier.end or ends.get(earlier.job_id)
        if end is not None and later.job_id != earlier.job_id and later.start < end:
            offences.append(
                f"two writers: link {later.link} of {spec.name} began {end - later.start} s "
                f"before the end of link {earlier.link}"
            )
    return offences


def summarize(records: Sequence[LinkRecord], chains: Mapping[str, ChainSpec]) -> list[str]:
    """Return a table of Markdown, a row for each chain: links, waits, overlaps, links sent back."""
    rows = ["| chain | links run | started early | sent back | failed |", "|---|---|---|---|---|"]
    for chain, spec in chains.items():
        chain_records = [record for record in records if record.chain == chain and record.start]
        early_count = sum(compute_time_left(record, chain_records) > 0 for record in chain_records)
        sent_back_count = sum(
            was_sent_back(record, chain_records)
            for record, _ in list_early_links(chain_records, spec)
        )
        failed_count = sum(record.state in ("FAILED", "NODE_FAIL") for record in chain_records)
        rows.append(
            f"| {spec.name} | {count_links(chain_records)} | {early_count} | {sent_back_count} "
            f"| {failed_count} |"
        )
    return rows
