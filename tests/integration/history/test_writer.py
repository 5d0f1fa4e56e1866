"""Cluster files as texts: those that are written read back, and so do those of the docs."""

import re
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import ConfigError
from mirage.history.cluster_files.reader import parse_cluster_file
from mirage.history.cluster_files.writer import format_numbers, render_cluster_file
from mirage.simulator.types import (
    OFF,
    NodeEvent,
    NodeGroup,
    Outage,
    Params,
    Partition,
    Qos,
    Reservation,
    SelectType,
)
from tests.support.paths import DOCS

CLUSTER_FILES = DOCS / "admin" / "clusters.md"


def read_back(text: str) -> Params:
    return parse_cluster_file(text, "C.toml").params


@given(st.sets(st.integers(0, 40)))
def test_numbers_are_written_as_ranges_that_hold_each_once(numbers: set[int]) -> None:
    spans = [span.split("-") for span in format_numbers(sorted(numbers)).split(",") if span]
    assert [n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)] == sorted(numbers)


COUNTS = st.integers(0, 10**6)
LEAST_ONE = st.integers(1, 10**6)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TIMES = st.integers(0, 2**36)


def _node_sets(nodes: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.integers(0, nodes - 1)).map(lambda numbers: tuple(sorted(numbers)))


@st.composite
def _groups(draw: st.DrawFn, nodes: int) -> tuple[NodeGroup, ...]:
    cuts = sorted(draw(st.sets(st.integers(1, nodes), max_size=3)) | {nodes})
    counts = [high - low for low, high in zip([0, *cuts], cuts, strict=False)]
    kinds = [draw(st.tuples(LEAST_ONE, COUNTS, COUNTS)) for _ in counts]
    return tuple(
        NodeGroup(count=count, cpus=cpus, memory_mib=mib, gpus=gpus)
        for count, (cpus, mib, gpus) in zip(counts, kinds, strict=True)
    )


@st.composite
def _reservations(draw: st.DrawFn, nodes: int) -> Reservation:
    start = draw(TIMES)
    return Reservation(
        name=draw(st.just("") | WORDS),
        start=start,
        end=start + draw(LEAST_ONE),
        nodes=draw(_node_sets(nodes)),
    )


@st.composite
def sites(draw: st.DrawFn) -> Params:
    nodes = draw(st.integers(1, 9))
    partitions = st.builds(
        Partition,
        name=WORDS,
        nodes=_node_sets(nodes),
        priority_tier=COUNTS,
        priority_job_factor=COUNTS,
        max_time_s=COUNTS,
        exclusive=st.booleans(),
    )
    qos = st.builds(
        Qos,
        name=WORDS,
        overrides_max_time=st.booleans(),
        **dict.fromkeys(["priority", "max_jobs_pu", "max_submit_pu"], COUNTS),
        **{f"max_{tres}_pu": COUNTS for tres in ("cpus", "memory_mib", "gpus", "nodes")},
    )
    events = st.builds(NodeEvent, TIMES, st.integers(0, nodes - 1), st.sampled_from(Outage))
    return draw(
        st.builds(
            Params,
            name=st.from_regex(r"[a-z_][a-z0-9_]{0,39}", fullmatch=True),
            nodes=st.just(nodes),
            gpus_per_node=COUNTS,
            cpus_per_node=LEAST_ONE,
            over_time_limit_s=COUNTS.map(lambda minutes: 60 * minutes),
            memory_mib_per_node=COUNTS,
            node_groups=st.just(()) | _groups(nodes),
            partitions=_tuples(partitions, "name", least=1),
            qos=_tuples(qos, "name"),
            shares=st.dictionaries(st.just("") | WORDS, COUNTS, max_size=3).map(
                lambda shares: tuple(shares.items())
            ),
            reservations=st.lists(_reservations(nodes), max_size=3).map(tuple),
            node_events=st.sets(events, max_size=6).map(_in_order),
            select_type=st.sampled_from(SelectType),
            priority_weight_age=COUNTS,
            priority_max_age_s=LEAST_ONE,
            priority_weight_job_size=COUNTS,
            priority_favor_small=st.booleans(),
            priority_weight_partition=COUNTS,
            priority_weight_qos=COUNTS,
            priority_weight_fairshare=COUNTS,
            priority_decay_half_life_s=LEAST_ONE,
            priority_calc_period_s=LEAST_ONE,
            accrue_always=st.booleans(),
            max_jobs_pu=COUNTS,
            sched_interval_s=LEAST_ONE | st.just(OFF),
            default_queue_depth=LEAST_ONE,
            bf_interval_s=LEAST_ONE | st.just(OFF),
            bf_window_s=LEAST_ONE.map(lambda minutes: 60 * minutes),
            bf_resolution_s=LEAST_ONE,
            bf_max_job_test=LEAST_ONE,
            bf_max_job_user=COUNTS,
            cancelled_jobs_run=st.booleans(),
        )
    )


def _tuples(rows: st.SearchStrategy[Any], key: str, least: int = 0) -> st.SearchStrategy[Any]:
    unique = st.lists(rows, min_size=least, max_size=3, unique_by=lambda row: getattr(row, key))
    return unique.map(tuple)


def _in_order(events: set[NodeEvent]) -> tuple[NodeEvent, ...]:
    weakest_first = [Outage.RESUME, Outage.DRAIN, Outage.DOWN]
    ordered = sorted(events, key=lambda e: (e.at, e.node, weakest_first.index(e.outage)))
    return tuple(ordered)


@given(sites(), st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_what_is_written_reads_back_equal(site: Params, comments: list[str]) -> None:
    assert read_back(render_cluster_file(site, comments)) == site


def test_a_window_of_seconds_is_written_in_whole_minutes_and_never_shorter() -> None:
    site = Params(name="lab", bf_window_s=90)
    assert read_back(render_cluster_file(site)).bf_window_s == 120


NAMES = {
    "[cluster]": "name nodes gpus_per_node cpus_per_node memory_mib_per_node node_names "
    "cancelled_jobs_run",
    "[scheduler]": "PriorityWeightAge PriorityMaxAge PriorityFlags PriorityFavorSmall SelectType "
    "bf_window bf_interval bf_continue PriorityCalcPeriod MaxJobsPU OverTimeLimit",
    "[[nodes]]": "count CPUs RealMemory Gres",
    "[[partitions]]": "PartitionName Nodes PriorityTier MaxTime OverSubscribe",
    "[[qos]]": "Name Priority Flags MaxTRESPU",
    "[[accounts]]": "Account Fairshare",
    "[[reservations]]": "ReservationName StartTime EndTime Nodes",
    "[[outages]]": "State StartTime EndTime Nodes",
    "[[capacity]]": "from nodes",
}
WRITTEN = st.one_of(
    st.integers(-3, 12).map(str),
    st.integers().map(str),
    st.sampled_from(["true", "inf", "nan", "1.5", "[]", "[0, 1]", "{}", "[[]]", "1979-05-27"]),
    st.sampled_from(["07:32:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"]),
    st.sampled_from(
        ["lab", "ALL", "0-3", "9-1", "n[1-9]", "n[1", "cpu=1", f"mem={9**400}P", "YES", "7-0"]
    ).map(lambda word: f'"{word}"'),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'")).map(
        lambda word: f"'{word}'"
    ),
)


@st.composite
def _documents(draw: st.DrawFn) -> str:
    whole = ["[cluster]", 'name = "lab"', "nodes = 8"]
    lines = list(draw(st.sampled_from([[], whole])))
    for section, names in NAMES.items():
        if section in lines:
            continue
        for _ in range(draw(st.integers(0, 2 if section.startswith("[[") else 1))):
            keys = draw(st.sets(st.sampled_from(names.split())))
            lines += [section, *(f"{key} = {draw(WRITTEN)}" for key in sorted(keys))]
    return "\n".join(lines)


@given(_documents())
def test_whatever_stands_in_a_file_it_reads_or_its_faults_are_told(text: str) -> None:
    found = Params()
    with suppress(ConfigError):
        found = parse_cluster_file(text, "C.toml").params
    assert read_back(render_cluster_file(found)) == found


def documented() -> list[str]:
    text = CLUSTER_FILES.read_text(encoding="utf-8")
    return re.findall(r"```toml\n(.*?)```", text, re.DOTALL)


def test_the_documented_defaults_are_the_defaults() -> None:
    assert read_back(documented()[0]) == Params(name="lab", nodes=76)


def test_the_documented_example_reads_without_a_warning() -> None:
    found = parse_cluster_file(documented()[1], "docs/admin/clusters.md")
    assert found.warnings == ()
    assert found.params.node_groups
    assert len(found.params.partitions) > 1
    assert found.params.reservations
    assert found.params.node_events
