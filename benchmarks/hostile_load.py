"""Clients that mean no good beside a service with chains: `python -m benchmarks.hostile_load`.

A real `mirage serve` of 50 chains beside fake commands of Slurm, first idle, then under 500 slow
connections (half a head, half a body, a byte a second), 24 threads of bad tokens, four slow
exports, 300 streams of events and eight connections that ask on without waiting for an answer, each
kind a client of its own where this runs as root. An honest client asks all the while, a new
connection each time. Told: ticks and how late they were, moves and how long each took from its
standby's appearance, memory, descriptors and log, and the honest answers; the first column is the
same service idle, in the same run. Ends with 1, and says why, where a move was lost, the log is
over 1 MB, ticks are late by more than an interval, or descriptors or (after ten minutes of load)
memory grow from the middle of the load to its end.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.hostile_clients import KINDS
from benchmarks.hostile_site import Site
from benchmarks.serving import percentile
from tests.support.mirage_process import Serving, environment, serving
from tests.support.paths import CHECKOUT

LOG_BYTES = 1_000_000
GROWTH = 1.02
"""The largest ratio of end to middle of the load at which a figure counts as flat."""
SOME_DESCRIPTORS = 16
"""The most descriptors that may be added between two samples: callers come and go."""
WARM_S = 600.0
"""A shorter load fills pools and caches, so its memory is not judged."""
_NOBODIES = 65530
"""The first uid of the clients, if root gives each kind a uid of its own."""
_PATIENCE_S = 60.0
_LAST_MOVE_S = 600.0
"""Seconds to wait for the last move on a busy machine."""
_GRACE_TICKS = 6
"""Ticks to wait for the last move, once it is due."""


@dataclass
class Answers:
    """The answers that the honest client got."""

    durations_s: list[float] = field(default_factory=list)
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    at: str
    memory_mib: float
    descriptors: int
    threads: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Phase:
    """The figures of one of the two phases."""

    seconds: float
    ticks: int
    late_s: dict[str, float]
    """p50, p99 and most: beyond the interval, from one tick to the next."""
    moves: int
    moves_lost: int
    move_s: dict[str, float]
    answers: int
    failures: int
    answer_ms: dict[str, float]


class Watch:
    """Looks at the site, and asks as an honest client, in threads of their own."""

    def __init__(self, site: Site, url: str) -> None:
        self._site, self._url = site, url
        self.answers = Answers()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._look, self._ask)]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.05):
            self._site.look()

    def _ask(self) -> None:
        """Ask in turns for a page without content and a list, through the socket and, if the others
        are other users, through TCP."""
        paths, socket_choices, number = ("/healthz", "/api/v1/chains"), [True], 0
        if os.geteuid() == 0:
            socket_choices.append(False)
        while not self._stop.wait(0.25):
            began = time.monotonic()
            is_answered = self._is_answered(
                paths[number % 2], by_socket=socket_choices[number // 2 % len(socket_choices)]
            )
            self.answers.durations_s.append(time.monotonic() - began)
            self.answers.failures += not is_answered
            number += 1

    def _is_answered(self, path: str, *, by_socket: bool) -> bool:
        transport = httpx.HTTPTransport(uds=str(self._site.socket) if by_socket else None)
        try:
            with httpx.Client(transport=transport, timeout=_PATIENCE_S, trust_env=False) as http:
                return http.get(self._url + path).is_success
        except httpx.HTTPError:
            return False


@contextmanager
def run_clients(url: str, counts: dict[str, int]) -> Iterator[None]:
    """Run `counts` hostile clients of each kind until the block ends."""
    target = httpx.URL(url)
    clients = []
    for number, (kind, count) in enumerate(counts.items()):
        words = [sys.executable, "-m", "benchmarks.hostile_clients", kind]
        words += [target.host, str(target.port), str(count), str(_NOBODIES + number)]
        clients.append(subprocess.Popen(words, cwd=CHECKOUT, env=environment()))
    try:
        yield
        if any(client.poll() is not None for client in clients):
            raise RuntimeError("a hostile client ended before its time")
    finally:
        for client in clients:
            client.kill()
            client.wait()


def take_sample(at: str, service: Serving) -> Sample:
    process = Path(f"/proc/{service.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return Sample(
        at=at,
        memory_mib=round(int(status["VmRSS"].split()[0]) / 1024, 1),
        descriptors=len(list((process / "fd").iterdir())),
        threads=int(status["Threads"]),
        log_bytes=service.log_bytes(),
    )


def summarize_phase(
    site: Site, answers: Answers, begin: float, end: float, move_numbers: Sequence[int]
) -> Phase:
    ticks = [at for at in site.ticks if begin <= at < end]
    late_s = [max(0.0, b - a - site.every_s) for a, b in pairwise(ticks)]
    moves_s = [site.moved_at[n] - site.due[n] for n in move_numbers if n in site.moved_at]
    return Phase(
        seconds=round(end - begin, 1),
        ticks=len(ticks),
        late_s=_summarize_spread(late_s),
        moves=len(moves_s),
        moves_lost=len(move_numbers) - len(moves_s),
        move_s=_summarize_spread(moves_s),
        answers=len(answers.durations_s),
        failures=answers.failures,
        answer_ms={name: s * 1e3 for name, s in _summarize_spread(answers.durations_s).items()},
    )


def _summarize_spread(values: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    return {name: round(percentile(values, s), 4) if values else 0.0 for name, s in shares.items()}


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    site = Site(folder, options.chains, options.every)
    idle_moves = max(1, options.chains // 5)
    with serving(site.config, site.slurm) as service:
        service.wait_until_ready()
        url, begin = service.url(), time.time()
        loaded_from = begin + options.idle
        end = loaded_from + options.seconds
        site.due = [
            *_space_evenly(begin, loaded_from, idle_moves),
            *_space_evenly(loaded_from, end, options.chains - idle_moves),
        ]
        samples = [take_sample("start", service)]
        with Watch(site, url) as idle_watch:
            _sleep_until(loaded_from)
        samples.append(take_sample("idle end", service))
        with Watch(site, url) as load_watch:
            counts = {kind: getattr(options, kind) for kind in KINDS}
            with run_clients(url, counts):
                for quarter, name in enumerate(("quarter", "half", "three quarters", "end"), 1):
                    _sleep_until(loaded_from + options.seconds * quarter / 4)
                    samples.append(take_sample(name, service))
                deadline = time.monotonic() + _GRACE_TICKS * options.every + _LAST_MOVE_S
                while len(site.moved_at) < options.chains and time.monotonic() < deadline:
                    time.sleep(0.1)
        samples.append(take_sample("after", service))
        code = service.end()
    phases = {
        "idle": summarize_phase(site, idle_watch.answers, begin, loaded_from, range(idle_moves)),
        "load": summarize_phase(
            site, load_watch.answers, loaded_from, end, range(idle_moves, options.chains)
        ),
    }
    return {
        "chains": options.chains,
        "every_s": options.every,
        "hostile": counts,
        "clients_are_users": os.geteuid() == 0,
        "load_average": round(os.getloadavg()[0], 1),
        "phases": {name: asdict(phase) for name, phase in phases.items()},
        "samples": [asdict(sample) for sample in samples],
        "events": _count_events(service),
        "exit_code": code,
    }


def _space_evenly(begin: float, end: float, count: int) -> list[float]:
    return [begin + (end - begin) * (n + 0.5) / count for n in range(count)]


def _sleep_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.time()))


def _count_events(service: Serving) -> dict[str, int]:
    """Count the lines of the log by their event."""
    counts: dict[str, int] = {}
    for line in service.log():
        counts[line["event"]] = counts.get(line["event"], 0) + 1
    return counts


def format_table(result: dict[str, Any]) -> str:
    phases = [result["phases"][name] for name in ("idle", "load")]
    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "seconds": lambda p: f"{p['seconds']:.0f}",
        f"ticks, every {result['every_s']} s": lambda p: str(p["ticks"]),
        "a tick late: p50, p99, most; s": lambda p: _format_spread(p["late_s"], 2),
        "moves; lost": lambda p: f"{p['moves']}; {p['moves_lost']}",
        "a move after it was due: p50, p99, most; s": lambda p: _format_spread(p["move_s"], 1),
        "honest answers; failures": lambda p: f"{p['answers']}; {p['failures']}",
        "an answer: p50, p99, most; ms": lambda p: _format_spread(p["answer_ms"], 0),
    }
    rows = [(name, *map(format_cell, phases)) for name, format_cell in cells.items()]
    lines = ["| | idle | under load |", "|---|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", "| at | memory, MiB | descriptors | threads | log, bytes |"]
    lines.append("|---|---:|---:|---:|---:|")
    lines += [
        f"| {' | '.join(str(value) for value in sample_row.values())} |"
        for sample_row in result["samples"]
    ]
    lines += ["", f"Hostile: {result['hostile']}; load average {result['load_average']}."]
    lines.append("Log: " + ", ".join(f"{n} {event!r}" for event, n in result["events"].items()))
    return "\n".join(lines)


def _format_spread(spread: dict[str, float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in spread.values())


def find_faults(result: dict[str, Any]) -> list[str]:
    """Return why the service failed under the load; empty if it did not fail."""
    load, samples = result["phases"]["load"], {sample["at"]: sample for sample in result["samples"]}
    half, end = samples["half"], samples["end"]
    lost_moves = sum(phase["moves_lost"] for phase in result["phases"].values())
    late_s = load["late_s"]["p99"]
    growth = end["memory_mib"] / half["memory_mib"]
    faults = {
        f"{lost_moves} moves were lost": lost_moves > 0,
        f"the log is over {LOG_BYTES} bytes": result["samples"][-1]["log_bytes"] > LOG_BYTES,
        f"ticks were late by {late_s:.1f} s (p99)": late_s > result["every_s"],
        "descriptors grew": end["descriptors"] > half["descriptors"] * GROWTH + SOME_DESCRIPTORS,
        f"memory grew by a factor of {growth:.3f}": load["seconds"] >= WARM_S and growth > GROWTH,
    }
    return [fault for fault, is_fault in faults.items() if is_fault]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="under load")
    parser.add_argument("--idle", type=float, default=150.0, help="seconds before that")
    parser.add_argument("--every", type=int, default=10, help="seconds between two ticks")
    parser.add_argument("--chains", type=int, default=50)
    default_counts = {"halves": 500, "tokens": 24, "exports": 4, "events": 300, "ahead": 8}
    for kind, count in default_counts.items():
        parser.add_argument(f"--{kind}", type=int, default=count, help=KINDS[kind].__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="mirage-hostile-") as folder:
        result = measure(Path(folder), options)
    print(json.dumps(result, indent=2) if options.json else format_table(result))
    faults = find_faults(result)
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
