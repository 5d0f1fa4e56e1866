"""`mirage report shadow` as a process: from a log alone to a recommendation, three ways shown."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mirage.lab.shadow_report.html_page import render_page
from mirage.simulator.types import SimJob
from tests.integration.cli.test_episodes import CLUSTER
from tests.support.episodes import small
from tests.support.episodes.tables import MONDAY
from tests.support.mirage_process import MIRAGE, Answer, environment, run
from tests.support.traces import write_parquet_trace

PIECES = 10
"""Of 60 h each: 25 days, of which six are the lead-in."""
PAIR = ("--nodes", "1", "--time-limit", "1:00:00", "--every", "12h")
EVALUATED = ("planned-quantile", "fixed-lead", "slurm-estimate", "auto")
NAMED = {"reactive", "accrue-always", "average", "oracle", *EVALUATED}
HOSTILE = "<script>alert(1)</script>"


def jobs() -> list[SimJob]:
    """A busy machine of eight nodes."""
    number = count(1)
    return [
        replace(job, submit=job.submit + piece * small.TRACE_S, job_id=next(number))
        for piece in range(PIECES)
        for job in small.trace(piece, jobs=80, load=0.9)
        if job.cancel_at is None
    ]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and its cluster file."""
    folder = tmp_path_factory.mktemp("site")
    write_parquet_trace(folder / "log.parquet", jobs())
    (folder / "C.toml").write_text(CLUSTER)
    return folder


def reported(logs: Path, *words: str, log: str = "log.parquet") -> Answer:
    named = ("--from-sacct", log, "--cluster", "C.toml", "--jobs", "1")
    return run("report", "shadow", *named, *words, cwd=logs)


@pytest.fixture(scope="module")
def made(logs: Path) -> dict[str, Any]:
    """One report with everything; its tables are kept beside it."""
    words = ("--nodes", "2", *PAIR, "--html", "out.html", "--keep", "kept", "--json")
    answer = reported(logs, *words)
    assert answer.code == 0, answer.err
    read: dict[str, Any] = json.loads(answer.out)
    return read


def test_the_figures_are_those_of_mirage_evaluate(made: dict[str, Any], logs: Path) -> None:
    kept = sorted(str(path) for path in (logs / "kept").glob("*.npz") if "twin" not in path.name)
    groups = made["groups"]
    assert [group["by"] for group in groups] == ["all", "pair", "pair"]
    for group, tables in zip(groups, (kept, kept[:1], kept[1:]), strict=True):
        words = [word for name in EVALUATED for word in ("--policy", name)]
        answer = run("evaluate", *tables, *words, "--json", "-", cwd=logs)
        assert answer.code == 0, answer.err
        judged = json.loads(answer.out)["policies"]
        if group["by"] != "all":
            for counted in ("auto_chosen", "auto_skipped"):
                del judged["auto"]["all"][counted]
        assert {*judged, "accrue-always"} == NAMED
        assert set(group["policies"]) == NAMED | {"switch-quantile"}
        assert {name: group["policies"][name] for name in judged} == judged


def test_what_is_saved_is_the_difference_of_the_means(made: dict[str, Any]) -> None:
    for group in made["groups"]:
        told = {name: by_class["all"] for name, by_class in group["policies"].items()}
        count_ = told["auto"]["episodes"]
        assert set(group["against"]) == NAMED - {"auto", "oracle"}
        for baseline, against in group["against"].items():
            saved = told[baseline]["interruption_h"] - told["auto"]["interruption_h"]
            assert against["interruption_saved_h"] == pytest.approx(saved)
            assert against["interruption_saved_sum_h"] == pytest.approx(saved * count_)
            low, high = against["interruption_saved_sum_h_ci"]
            assert low <= saved * count_ + 1e-9
            assert high >= saved * count_ - 1e-9
            cheaper = told[baseline]["cost_h"] - told["auto"]["cost_h"]
            assert against["cost_saved_h"] == pytest.approx(cheaper)


def test_what_was_asked_about_is_said(made: dict[str, Any]) -> None:
    assert [(p["nodes"], p["time_limit_s"], p["why"]) for p in made["pairs"]] == [
        (2, 3600, "as asked"),
        (1, 3600, "as asked"),
    ]
    assert made["from"] == "2023-11-27T00:00:00+00:00", "six days in, whole days"
    assert made["groups"][0]["days"] >= 14
    assert made["recommendation"]["advice"]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_by_itself(made: dict[str, Any], logs: Path) -> None:
    page = _Page()
    page.feed((logs / "out.html").read_text())
    assert made["recommendation"]["advice"] in page.text
    assert page.tags.count("svg") == page.tags.count("table") == len(made["groups"])
    assert page.links == []
    assert len(page.ids) == len(set(page.ids)) == 2 * len(made["groups"])
    assert "script" not in page.tags
    assert page.text.count("with ACCRUE_ALWAYS") == 2 * len(made["groups"])
    assert page.text.count("no service, own plan") == 2 * len(made["groups"])
    assert page.text.count("switch chain") == len(made["groups"]), "it is in no plot"
    for group in made["groups"]:
        switch = group["policies"]["switch-quantile"]["all"]
        assert switch["interruption_h"] is not None
        assert switch["cost_h"] is None


def test_waits_that_the_replay_does_not_have_are_said_before_any_advice(logs: Path) -> None:
    """Each job waited ten hours, and the cluster file has room for all at once."""
    rows = ["JobIDRaw|User|Partition|State|Submit|Eligible|Start|End|TimelimitRaw|NNodes|NCPUS"]
    for number in range(1, 6 * 24):
        at = MONDAY + number * 14_400
        start = at + 36_000
        rows.append(f"{number}|u{number % 5}||COMPLETED|{at}|{at}|{start}|{start + 3000}|60|1|4")
    (logs / "waits.txt").write_text("\n".join([*rows, ""]))
    answer = reported(logs, *PAIR, "--json", log="waits.txt")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert told["recommendation"]["verdict"] == "replay-unlike-log"
    (waits,) = told["waits"]
    assert (waits["logged_h"], waits["agrees"]) == (10.0, False)
    assert waits["replayed_h"] < 1


def test_by_default_the_trace_says_which_hand_overs(logs: Path) -> None:
    answer = reported(logs, "--every", "3d", "--since", "7d")
    assert answer.code == 0, answer.err
    assert "Too little data" in answer.out
    assert "the partition's most used long jobs" in answer.out
    assert "with ACCRUE_ALWAYS" in answer.out


def test_a_short_log_is_too_little_and_no_error(logs: Path) -> None:
    short = [job for job in jobs() if job.submit < MONDAY + 3 * 86400]
    write_parquet_trace(logs / "short.parquet", short)
    words = (*PAIR, "--json", "--html", "short.html")
    answer = reported(logs, *words, log="short.parquet")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert told["recommendation"]["verdict"] == "too-little-data"
    assert told["groups"] == []
    rows = told["rows"]
    out = sum(rows["refused"].values()) + sum(rows["skipped"].values())
    assert rows["read"] == len(short) == rows["replayed"] + out
    assert "Too little data: 0 days" in (logs / "short.html").read_text()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "it holds no jobs"),
        ("1|05.10.2022 14:12|FAILED\n", "submit is not a time in epoch seconds or as 2023"),
    ],
)
def test_a_log_of_which_nothing_is_replayed_says_why(logs: Path, rows: str, said: str) -> None:
    (logs / "bad.txt").write_text(f"JobIDRaw|Submit|State\n{rows}")
    answer = reported(logs, log="bad.txt")
    assert answer.code == 2
    assert said in answer.err


def test_names_of_the_log_are_escaped(made: dict[str, Any]) -> None:
    for where in ((), ("pairs", 0), ("groups", 1)):
        hostile = json.loads(json.dumps(made))
        place = hostile
        for step in where:
            place = place[step]
        place |= dict.fromkeys(("name", "trace", "cluster") if where else ("trace",), HOSTILE)
        text = render_page(hostile)
        assert HOSTILE not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "none"), "no partition 'none'"),
        (("--nodes", "9"), "does not fit partition"),
        (("--since", "lately"), "--since lately is not understood: give a time such as 28d"),
        (("--until", "now"), "--until now: not a date"),
        (("--since", "0d"), "the log has no day between --since 0d and --until its end"),
        (("--since", "9999-12-31"), "the log has no day between"),
        (("--until", "0001-01-01"), "the log has no day between"),
        (("--overlap-price", "nan"), "--overlap-price nan is not a finite number"),
        (("--every", "0"), "--every 0: not a time"),
        (("--time-limit", "soon"), "--time-limit soon: not a time"),
        (("--html", "/nowhere/out.html"), "/nowhere/out.html cannot be written: /nowhere is no"),
        (("--keep", "/nowhere/kept"), "--keep /nowhere/kept cannot be created: No such"),
        (("--from-sacct", "none.txt"), "none.txt"),
    ],
)
def test_bad_input_is_told_in_one_sentence(logs: Path, words: tuple[str, ...], said: str) -> None:
    answer = reported(logs, *words)
    assert (answer.code, answer.out) == (2, ""), answer
    (line,) = answer.err.strip().splitlines()
    assert said in line


def test_without_a_log_it_says_what_to_give() -> None:
    answer = run("report", "shadow")
    assert (answer.code, answer.out) == (2, "")
    assert "--from-sacct FILE --cluster C.toml" in answer.err


def test_sigterm_leaves_nothing_behind(logs: Path, tmp_path: Path) -> None:
    named = ("--from-sacct", "log.parquet", "--cluster", "C.toml", "--jobs", "2")
    pair = ("--nodes", "1", "--time-limit", "1:00:00", "--every", "1m")
    with subprocess.Popen(
        [*MIRAGE, "report", "shadow", *named, *pair],
        env=environment(TMPDIR=str(tmp_path)),
        cwd=logs,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until = time.monotonic() + 100
        while not list(tmp_path.glob("*/.pair-*/block-*")) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "start points are kept" in err
    assert "leaked" not in err
    assert list(tmp_path.glob("mirage-report-*")) == []
