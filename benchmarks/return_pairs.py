"""Chains whose early links give their nodes back beside chains that hold them, on a real Slurm.

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.return_pairs [--handovers 6]

Three chains of alice's run beside each other, with the same time limit: early links give their
nodes back (`--mirage-returns=2`), they hold them (`--mirage-returns=0`), and plain Slurm, whose
links submit their successor with `afterany`. Links are released 12 minutes before their
predecessor's end, as after a busy day. Jobs of the partition have waited for a quarter of an
hour before. First the cluster is idle (light), then bob's jobs keep it full (heavy). A service
decides. Before that slurmctld counts (sdiag) the RPCs of a chain with returns, and of the same one
without.

The tables have a row for each chain and load, what returns cost in RPCs, and what came of the
sentence "Link N is expected to start at ...", read as its predecessor has used half of its time
limit. Exit code 1: too few hand-overs, two writers, or no link gave its nodes back.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.error import HTTPError

from benchmarks.plans_rpcs import CallCount, submit_plain
from benchmarks.plans_scene import (
    HOUR,
    MINUTE,
    open_scene,
    read_chain_id,
    resume_drained_nodes,
)
from benchmarks.plans_watch import ChainSpec
from tests.support.handover.scene import Scene, ScriptRun

POLICY = "quantile"
RETURNS, HOLDS, PLAIN = "returns", "holds", "plain"
KINDS = {RETURNS: ("--mirage-returns=2",), HOLDS: ("--mirage-returns=0",), PLAIN: ()}
LIMIT_MIN = 30
WAITED_MIN = 15
"""The wait of similar jobs before, minutes."""
BACKLOG, RUN_S, WARM_UP_S = 8, (HOUR // 4, 3 * HOUR // 4), HOUR
COUNTED_LIMIT_MIN, COUNTED_LINKS = 30, 3
"""Time limit and links of the chains whose RPCs are counted: two hand-overs each, on an idle
cluster."""
_EARLY = ("--mirage-lead=12:00", "--mirage-max-overlap=30:00")
_LOOK_S = 2 * MINUTE
_TIMES = ("earliest", "at", "latest")
_COLUMNS = "JobIDRaw,JobName,Start,End"


@dataclass(frozen=True, slots=True)
class HandOver:
    """The cost of a hand-over of a chain with one node, in seconds."""

    late_s: int
    """From the predecessor's end to the script's start; negative: two links wrote at once."""
    idle_s: int
    """The time for which jobs of the successor held a node before its script began."""
    returns: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """The start of a link that `mirage chain show` expected, and the real start; epoch seconds."""

    link: str
    earliest: float
    at: float
    latest: float
    began: float

    @property
    def has_interval(self) -> bool:
        """Whether the sentence names an interval; that of a link that has its nodes does not."""
        return self.earliest != self.latest

    @property
    def missed_s(self) -> float:
        """How long after the interval the script began; negative: before it; 0: inside."""
        return self.began - min(max(self.began, self.earliest - MINUTE), self.latest + MINUTE)


@dataclass
class Sentences:
    """Reads each link's sentence once its predecessor has used half of its time limit."""

    scene: Scene
    chains: dict[str, str]
    """The chain's id, by name."""
    texts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    _looked_at: float = 0.0

    def look(self) -> None:
        now = self.scene.testbed.now()
        if now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        for name, chain in self.chains.items():
            runs = self.scene.list_runs(name)
            if not runs or now < runs[-1].start + LIMIT_MIN * MINUTE / 2:
                continue
            key = (name, runs[-1].link + 1)
            try:
                text = None if key in self.texts else self._read(chain)
            except HTTPError:  # not registered yet
                continue
            if text is not None and text["link"] == key[1]:
                self.texts[key] = text

    def _read(self, chain: str) -> dict[str, Any] | None:
        text: dict[str, Any] | None = self.scene.api(f"/api/v1/chains/{chain}")["expected_start"]
        return text

    def judge(self) -> list[Sentence]:
        """Return the sentences of links whose script has begun since."""
        began = {
            (name, run.link): run.start
            for name in self.chains
            for run in self.scene.list_runs(name)
        }
        sentences = []
        for key, text in self.texts.items():
            if key in began:
                earliest, at, latest = (_parse_instant(text[word]) for word in _TIMES)
                link = f"link {key[1]} of {key[0]}"
                sentences.append(Sentence(link, earliest, at, latest, began[key]))
        return sentences


def _parse_instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def measure_load(
    scene: Scene, load: str, handovers: int
) -> tuple[dict[str, list[HandOver]], list[Sentence]]:
    """Let one chain of each kind run beside the others; (hand-overs by kind, sentences)."""
    names = {kind: f"{load}-{kind}" for kind in KINDS}
    links = handovers + 1
    ids = {}
    for kind, options in KINDS.items():
        if kind == PLAIN:
            path = scene.testbed.env("alice")["PATH"]
            submit_plain(scene, names[kind], links, LIMIT_MIN, path)
            continue
        job = scene.submit_chain(
            names[kind],
            links=links,
            run_s=LIMIT_MIN * MINUTE,
            limit_min=LIMIT_MIN,
            style="sequential",
            options=(*_EARLY, *options, f"--job-name={names[kind]}"),
        )
        ids[names[kind]] = read_chain_id(scene, job)
    sentences = Sentences(scene, ids)

    def is_over() -> bool:
        sentences.look()
        resume_drained_nodes(scene)
        return all(len(scene.list_runs(name)) >= links for name in names.values())

    scene.testbed.wait_until(is_over, 6 * links * HOUR, f"the last links, {load}")
    _cancel_chains(scene)
    spans = _read_spans(scene)
    return {
        kind: list_handovers(scene.list_runs(name), spans[name]) for kind, name in names.items()
    }, sentences.judge()


def _cancel_chains(scene: Scene) -> None:
    """Cancel what alice has left; bob's jobs stay."""

    def is_empty() -> bool:
        scene.testbed.run(["scancel", "-u", "alice"], check=False)
        return not scene.testbed.run(["squeue", "-h", "-u", "alice", "-o", "%A"]).stdout.strip()

    scene.testbed.wait_until(is_empty, HOUR, "alice's jobs to end")


def _read_spans(scene: Scene) -> dict[str, dict[int, tuple[int, int]]]:
    """(start, end) of each of alice's jobs that ran, by the chain's name and the job."""
    words = ["sacct", "-n", "-P", "-X", "-u", "alice", "-S", "now-7days", "-o", _COLUMNS]
    text = scene.testbed.run(words, env={"SLURM_TIME_FORMAT": "%s"}).stdout
    spans: dict[str, dict[int, tuple[int, int]]] = {}
    for line in text.splitlines():
        job, name, start, end = line.split("|")
        if start.isdigit() and end.isdigit():
            spans.setdefault(name, {})[int(job)] = (int(start), int(end))
    return spans


def list_handovers(runs: Sequence[ScriptRun], spans: dict[int, tuple[int, int]]) -> list[HandOver]:
    """Return the hand-overs of a chain, by its scripts' own lines and accounting.

    A job whose script never began is a return of the link that began next.
    """
    scripts = {run.job_id: run.start for run in runs}
    handovers = []
    for earlier_run, later_run in pairwise(runs):
        return_spans = [
            span
            for job, span in spans.items()
            if job not in scripts and earlier_run.start <= span[0] < later_run.start
        ]
        held_s = sum(end - start for start, end in return_spans)
        waited_s = later_run.start - spans[later_run.job_id][0]
        late_s = later_run.start - spans[earlier_run.job_id][1]
        handovers.append(HandOver(late_s, held_s + max(0, waited_s), len(return_spans)))
    return handovers


def count_rpcs(scene: Scene) -> dict[str, tuple[int, int]]:
    """(RPCs of the owner, returns) of a chain with returns, and of one without."""
    return {kind: _count_rpcs(scene, kind) for kind in (RETURNS, HOLDS)}


def _count_rpcs(scene: Scene, kind: str) -> tuple[int, int]:
    count = CallCount(scene)
    spec = ChainSpec(
        name=f"counted-{kind}",
        style="sequential",
        limit_min=COUNTED_LIMIT_MIN,
        links=COUNTED_LINKS,
        options=(*_EARLY, *KINDS[kind]),
    )
    chain = spec.submit(scene)

    def is_over() -> bool:
        count.look()
        return len(scene.list_runs(spec.name)) >= spec.links

    scene.testbed.wait_until(is_over, 8 * HOUR, f"the last link of {spec.name}")
    count.look()
    return_count = len(list((scene.root / "alice" / "state" / chain / "returns").glob("*")))
    _cancel_chains(scene)
    return count.total, return_count


def format_loads(loads: dict[str, dict[str, list[HandOver]]]) -> list[str]:
    """Format a table of Markdown, a row for each load and chain."""
    rows = [
        "| load | chain | hand-overs | interrupted, mean min | idle node-hours | returns |",
        "|---|---|---|---|---|---|",
    ]
    for load, kinds in loads.items():
        for kind, handovers in kinds.items():
            mean = statistics.fmean(max(0, handover.late_s) for handover in handovers) / MINUTE
            idle_h = sum(handover.idle_s for handover in handovers) / HOUR
            returns = sum(handover.returns for handover in handovers)
            rows.append(
                f"| {load} | {kind} | {len(handovers)} | {mean:.1f} | {idle_h:.2f} | {returns} |"
            )
    return rows


def format_sentences(sentences: Sequence[Sentence]) -> list[str]:
    """Format how many starts were inside the expected interval, each miss, and the errors.

    An interval counts in whole minutes, as users see it.
    """
    lines = []
    for words, part in (
        ("with an interval", [sentence for sentence in sentences if sentence.has_interval]),
        ("an instant alone", [sentence for sentence in sentences if not sentence.has_interval]),
    ):
        errors = [abs(sentence.began - sentence.at) / MINUTE for sentence in part] or [0.0]
        misses = [sentence for sentence in part if sentence.missed_s]
        lines.append(
            f'"expected to start", {words}: {len(part)} hand-overs, '
            f"{len(part) - len(misses)} inside, "
            f"{sum(sentence.missed_s < 0 for sentence in misses)} before, "
            f"{sum(sentence.missed_s > 0 for sentence in misses)} after, "
            f"median error {statistics.median(errors):.1f} min, largest {max(errors):.1f} min"
        )
        lines += [
            f"- {sentence.link}: {abs(sentence.missed_s) / MINUTE:.1f} min "
            f"{'after' if sentence.missed_s > 0 else 'before'} an interval of "
            f"{(sentence.latest - sentence.earliest) / MINUTE:.0f} min"
            for sentence in misses
        ]
    return lines


def measure(handovers: int) -> list[str]:
    """Print the tables; return the offences."""
    loads: dict[str, dict[str, list[HandOver]]] = {}
    sentences: list[Sentence] = []
    with open_scene() as scene:
        scene.let_jobs_wait(WAITED_MIN, jobs=24)
        scene.start_service(policy=POLICY)
        rpcs = count_rpcs(scene)
        for load in ("light", "heavy"):
            if load == "heavy":
                scene.fill(backlog=BACKLOG, gpus=4, run_s=RUN_S)
                _let_pass(scene, WARM_UP_S)
            loads[load], load_sentences = measure_load(scene, load, handovers)
            sentences += load_sentences
            print("\n".join(format_loads({load: loads[load]})[-3:]), flush=True)
    offences = _find_offences(loads, handovers)
    print("\n".join(format_loads(loads)))
    for kind, (calls, return_count) in rpcs.items():
        print(
            f"{kind}: {calls} RPCs of {COUNTED_LINKS} links, {return_count} links gave nodes back"
        )
    print("\n".join(format_sentences(sentences)))
    return offences


def _let_pass(scene: Scene, seconds: float) -> None:
    until = scene.testbed.now() + seconds
    scene.testbed.wait_until(lambda: scene.testbed.now() >= until, 2 * seconds, "warm up")


def _find_offences(loads: dict[str, dict[str, list[HandOver]]], handovers: int) -> list[str]:
    offences = []
    for load, kinds in loads.items():
        for kind, pairs in kinds.items():
            if len(pairs) < handovers:
                offences.append(
                    f"{load}, {kind}: {len(pairs)} hand-overs, {handovers} were asked for"
                )
            offences += [
                f"{load}, {kind}: a link began {-pair.late_s} s before the end of the one before it"
                for pair in pairs
                if pair.late_s < 0
            ]
    if not sum(pair.returns for pair in loads["light"][RETURNS]):
        offences.append("no link gave its nodes back on an idle cluster")
    return offences


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--handovers", type=int, default=6, help="of each chain and load")
    options = parser.parse_args(words)
    offences = measure(options.handovers)
    print("\n".join(offences) or "no offence")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
