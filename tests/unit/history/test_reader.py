"""Cluster files: what they set, and every fault at once."""

from pathlib import Path

import pytest

from mirage.errors import ConfigError
from mirage.history.cluster_files.reader import (
    load_cluster_file,
    load_cluster_params,
    parse_cluster_file,
)
from mirage.simulator.types import (
    NodeEvent,
    NodeGroup,
    Outage,
    Params,
    Partition,
    Qos,
    Reservation,
    SelectType,
)

LEAST = '[cluster]\nname = "lab"\nnodes = 8\n'
UNNAMED = "SLURM_VERSION: planned as Slurm 22.05, for SLURM_VERSION is missing"
NAMED = f'{LEAST}node_names = "gpu[01-08]"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "C.toml"
    path.write_text(text, encoding="utf-8")
    return path


def params(text: str) -> Params:
    return parse_cluster_file(text, "C.toml").params


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_cluster_file(text, "C.toml")
    assert caught.value.source == "C.toml"
    return caught.value.faults


def test_reads_slurms_names_in_slurms_units() -> None:
    text = """
        [cluster]
        name = "ls6"
        nodes = 76
        gpus_per_node = 3
        memory_mib_per_node = 257000
        cancelled_jobs_run = "YES"

        [scheduler]
        SelectType = "select/cons_tres"
        PriorityWeightAge = 7001
        PriorityMaxAge = "7-0"
        PriorityWeightJobSize = 99
        PriorityFavorSmall = "YES"
        PriorityWeightPartition = 5
        PriorityWeightQOS = 6
        PriorityWeightFairshare = 7
        PriorityDecayHalfLife = "14-0"
        PriorityCalcPeriod = 10
        PriorityFlags = "ACCRUE_ALWAYS,FAIR_TREE"
        MaxJobsPU = 8
        sched_interval = 61
        default_queue_depth = 200
        bf_interval = 31
        bf_window = 1440
        bf_resolution = 300
        bf_max_job_test = 1000
        bf_max_job_user = 20
        bf_continue = true
    """
    assert params(text) == Params(
        name="ls6",
        nodes=76,
        gpus_per_node=3,
        memory_mib_per_node=257000,
        cancelled_jobs_run=True,
        select_type=SelectType.CONS_TRES,
        priority_weight_age=7001,
        priority_max_age_s=7 * 86400,
        priority_weight_job_size=99,
        priority_favor_small=True,
        priority_weight_partition=5,
        priority_weight_qos=6,
        priority_weight_fairshare=7,
        priority_decay_half_life_s=14 * 86400,
        priority_calc_period_s=600,
        accrue_always=True,
        max_jobs_pu=8,
        sched_interval_s=61,
        default_queue_depth=200,
        bf_interval_s=31,
        bf_window_s=86400,
        bf_resolution_s=300,
        bf_max_job_test=1000,
        bf_max_job_user=20,
    )


def test_keys_are_known_in_any_case_but_not_twice() -> None:
    assert (
        params(f"{LEAST}[scheduler]\nPriorityWeightFairShare = 3\n").priority_weight_fairshare == 3
    )
    twice = f"{LEAST}[scheduler]\nbf_window = 60\nBF_WINDOW = 60\n"
    assert faults(twice) == ["[scheduler] BF_WINDOW: is given twice"]


def test_partitions_name_their_nodes_by_number_or_by_name() -> None:
    text = f"""{NAMED}
        [[partitions]]
        PartitionName = "gpu"
        Nodes = "ALL"
        [[partitions]]
        PartitionName = "debug"
        Nodes = "0-1,7"
        PriorityTier = 2
        PriorityJobFactor = 5
        MaxTime = 30
        OverSubscribe = "EXCLUSIVE"
        [[partitions]]
        PartitionName = "long"
        Nodes = "gpu[02-03],gpu08"
        MaxTime = "UNLIMITED"
        [[partitions]]
        PartitionName = "one"
        Nodes = [4]
    """
    assert params(text).partitions == (
        Partition(name="gpu"),
        Partition(
            name="debug",
            nodes=(0, 1, 7),
            priority_tier=2,
            priority_job_factor=5,
            max_time_s=1800,
            exclusive=True,
        ),
        Partition(name="long", nodes=(1, 2, 7)),
        Partition(name="one", nodes=(4,)),
    )


def test_the_names_of_the_nodes_are_there_by_number(tmp_path: Path) -> None:
    found = load_cluster_file(write(tmp_path, NAMED))
    assert found.node_names == tuple(f"gpu0{i}" for i in range(1, 9))
    assert found.warnings == (UNNAMED,)


def test_groups_of_nodes_qos_and_shares() -> None:
    text = f"""{LEAST}
        [[nodes]]
        count = 6
        CPUs = 64
        RealMemory = 256000
        Gres = "gpu:a100:4"
        [[nodes]]
        count = 2
        CPUs = 32
        [[qos]]
        Name = "normal"
        MaxTRESPU = "cpu=128,mem=1G,gres/gpu=16,node=4"
        [[qos]]
        Name = "high"
        Priority = 100
        MaxJobsPU = 2
        MaxSubmitJobsPU = 5
        [[accounts]]
        Account = "physics"
        Fairshare = 10
    """
    found = params(text)
    assert found.node_groups == (
        NodeGroup(count=6, cpus=64, memory_mib=256000, gpus=4),
        NodeGroup(count=2, cpus=32),
    )
    assert found.qos == (
        Qos(max_cpus_pu=128, max_memory_mib_pu=1024, max_gpus_pu=16, max_nodes_pu=4),
        Qos(name="high", priority=100, max_jobs_pu=2, max_submit_pu=5),
    )
    assert found.shares == (("physics", 10),)


def test_reservations_and_outages() -> None:
    text = f"""{LEAST}
        [[reservations]]
        ReservationName = "maint"
        StartTime = 2023-01-01T00:00:00Z
        EndTime = 2023-01-01T02:00:00+01:00
        [[outages]]
        Nodes = "2-3"
        State = "DOWN"
        StartTime = 1000
        EndTime = 2000
        [[outages]]
        Nodes = [2]
        State = "drain"
        StartTime = 2000
    """
    found = params(text)
    assert found.reservations == (
        Reservation(name="maint", start=1672531200, end=1672531200 + 3600),
    )
    assert found.node_events == (
        NodeEvent(1000, 2, Outage.DOWN),
        NodeEvent(1000, 3, Outage.DOWN),
        NodeEvent(2000, 2, Outage.RESUME),
        NodeEvent(2000, 2, Outage.DRAIN),
        NodeEvent(2000, 3, Outage.RESUME),
    )


def test_capacity_over_time_drains_the_nodes_above() -> None:
    text = f"""{LEAST}
        [[capacity]]
        from = 100
        nodes = 6
        [[capacity]]
        from = 200
        nodes = 7
    """
    assert params(text).node_events == (
        NodeEvent(100, 6, Outage.DRAIN),
        NodeEvent(100, 7, Outage.DRAIN),
        NodeEvent(200, 6, Outage.RESUME),
    )


PERIOD = "StartTime = {}\nEndTime = {}\nNodes = '{}'\n"


def test_what_overlaps_reads_and_is_told() -> None:
    text = (
        LEAST
        + "".join(
            f"[[reservations]]\nReservationName = '{name}'\n{PERIOD.format(*period)}"
            for name, period in {
                "a": (10, 20, "0-3"),
                "b": (15, 25, "3-4"),
                "c": (20, 25, "0-2"),
                "d": (24, 30, "ALL"),
            }.items()
        )
        + "".join(
            f"[[outages]]\nState = 'DOWN'\n{PERIOD.format(*period)}"
            for period in [(10, 20, "5-6"), (15, 30, "6-7")]
        )
    )
    assert parse_cluster_file(text, "C.toml").warnings == (
        UNNAMED,
        "reservations 'a' and 'b' overlap",
        "reservations 'b' and 'd' overlap",
        "reservations 'c' and 'd' overlap",
        "1 times a node returns that was not out (first node 6): "
        "if outages of a node overlap, its first return ends them all",
    )


def test_names_every_fault_at_once() -> None:
    text = """
        nodes = 3
        [cluster]
        nodes = 0
        [scheduler]
        PriorityMaxAge = "soon"
        PriorityWeightFairshare = -5
        PriorityFlags = "ACCRUE_ALWAYS,MAX_TRES"
        PriorityFavorSmall = "perhaps"
        SelectType = "select/cray_aries"
        bf_intervall = 3
        bf_window = true
        bf_continue = false
        [shed]
    """
    assert faults(text) == [
        "[shed]: no such section",
        "[cluster] nodes = 0: must be a whole number, at least 1",
        "[cluster] name: missing",
        "[scheduler] PriorityMaxAge = 'soon': not a time limit: 'soon'",
        "[scheduler] PriorityWeightFairshare = -5: must be a whole number, at least 0",
        "[scheduler] PriorityFlags = 'ACCRUE_ALWAYS,MAX_TRES': not simulated: MAX_TRES",
        '[scheduler] PriorityFavorSmall = \'perhaps\': must be "YES" or "NO"',
        "[scheduler] SelectType = 'select/cray_aries': not simulated: must be "
        '"select/linear" or "select/cons_tres"',
        "[scheduler] bf_intervall: no such key",
        "[scheduler] bf_window = True: must be a whole number, at least 1",
        "[scheduler] bf_continue = False: not simulated: must be true, "
        "since a pass takes no time and is never interrupted",
        "nodes: must be written as [[nodes]], one section for each",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "[[nodes]]\ncount = 3\nCPUs = 4\n",
            "[[nodes]]: the counts add up to 3, and [cluster] nodes is 8",
        ),
        ("[[nodes]]\ncount = 8\n", "[[nodes]] 1 CPUs: missing"),
        ("[[partitions]]\nNodes = '0'\n", "[[partitions]] 1 PartitionName: missing"),
        (
            "[[partitions]]\nPartitionName = 'p'\nNodes = '0-8'\n",
            "[[partitions]] 1 Nodes = '0-8': there is no node 8: the nodes are 0 to 7",
        ),
        (
            "[[partitions]]\nPartitionName = 'p'\nNodes = 'gpu01'\n",
            "[[partitions]] 1 Nodes = 'gpu01': "
            "host names are known only if [cluster] node_names is set",
        ),
        (
            "[[partitions]]\nPartitionName = 'p'\nNodes = ''\n",
            "[[partitions]] 1 Nodes = '': must be node numbers such as \"0-3,7\", a host list, "
            'or "ALL"',
        ),
        (
            2 * "[[partitions]]\nPartitionName = 'p'\n",
            "[[partitions]] p: the name is given more than once",
        ),
        (
            "[[partitions]]\nPartitionName = 'p'\nOverSubscribe = 'FORCE'\n",
            "[[partitions]] 1 OverSubscribe = 'FORCE': not simulated: must be "
            '"EXCLUSIVE" or "NO"',
        ),
        (
            "[[qos]]\nName = 'q'\nMaxTRESPU = 'license/x=3,cpu=1'\n",
            "[[qos]] 1 MaxTRESPU = 'license/x=3,cpu=1': not simulated: license/x; "
            "only cpu, mem, gres/gpu, node are",
        ),
        (
            "[[qos]]\nName = 'q'\nMaxTRESPU = 'cpu=0'\n",
            "[[qos]] 1 MaxTRESPU = 'cpu=0': must be a whole number, at least 1",
        ),
        (
            "[[reservations]]\nStartTime = 5\nEndTime = 5\n",
            "[[reservations]] with StartTime 5: EndTime must be later than StartTime",
        ),
        (
            "[[reservations]]\nStartTime = 2023-01-01T00:00:00\nEndTime = 5\n",
            "[[reservations]] 1 StartTime = datetime.datetime(2023, 1, 1, 0, 0): "
            "needs its offset from UTC, such as 2026-01-31T12:00:00Z",
        ),
        (
            "[[outages]]\nStartTime = 5\nState = 'AWAY'\nNodes = '0'\n",
            '[[outages]] 1 State = \'AWAY\': must be one of "DOWN", "DRAIN", "RESUME"',
        ),
        ("[[capacity]]\nfrom = 5\nnodes = 9\n", "[[capacity]] 1 nodes = 9: the cluster has 8"),
        (
            "[[capacity]]\nfrom = 5\nnodes = 7\n[[capacity]]\nfrom = 5\nnodes = 8\n",
            "[[capacity]] 2: `from` must be later than in the section before",
        ),
        ("[[accounts]]\nAccount = 'a'\n", "[[accounts]] 1 Fairshare: missing"),
    ],
)
def test_a_fault_says_where_it_is_and_what_must_be(text: str, fault: str) -> None:
    assert faults(LEAST + text) == [fault]


def test_node_names_are_as_many_as_the_nodes_and_no_others() -> None:
    few = LEAST + 'node_names = "n[1-7]"\n'
    assert faults(few) == ["[cluster] node_names: has 7 names for 8 nodes"]
    strange = NAMED + "[[partitions]]\nPartitionName = 'p'\nNodes = 'gpu09'\n"
    assert faults(strange) == [
        "[[partitions]] 1 Nodes = 'gpu09': [cluster] node_names does not name gpu09"
    ]


def test_says_when_there_is_no_file_or_no_toml(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(f"nodes = {'9' * 5000}")
    for path, said in [
        (tmp_path / "absent.toml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (write(tmp_path, "[cluster"), "not TOML"),
        (tmp_path / "long.toml", "not TOML"),
    ]:
        with pytest.raises(ConfigError) as caught:
            load_cluster_params(path)
        assert caught.value.faults[0].startswith(said)


def test_a_name_is_as_long_as_slurm_and_the_database_take_it() -> None:
    lines = '[cluster]\nname = "{}"\nnodes = 1\n'
    assert params(lines.format(40 * "c")).name == 40 * "c"
    (fault,) = faults(lines.format(41 * "c"))
    assert fault.endswith("must be at most 40 characters long")
