"""A site's answers as the simulator's settings, and what is said of the rest."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import MalformedText
from mirage.history.cluster_files.reader import parse_cluster_file
from mirage.history.cluster_files.writer import render_cluster_file
from mirage.history.site_import import slurm_answers
from mirage.history.site_import.params import ImportedSite, convert_site
from mirage.history.site_import.slurm_answers import SiteAnswers, SiteQuestion
from mirage.simulator.types import OFF, NodeGroup, Params, Partition, Qos, Reservation, SelectType
from mirage.slurm.text.hostlist import compress_hostlist
from tests.support.cluster import site_texts
from tests.support.cluster.site_texts import answers


def imported(**changed: str) -> ImportedSite:
    return convert_site(answers(**changed), UTC)


def with_lines(question: SiteQuestion, lines: list[str]) -> ImportedSite:
    found = answers()
    texts = {**found.texts, question: "\n".join(lines) + "\n"}
    return convert_site(replace(found, texts=texts), UTC)


def said(site: ImportedSite, *words: str) -> str:
    """The one note that has these words."""
    (note,) = [n for n in site.notes if all(word in n for word in words)]
    return note


def test_the_whole_site() -> None:
    site = imported()
    assert site.node_names == ("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "big1", "big2")
    assert site.params == Params(
        name="testbed",
        slurm_version="22.05.8",
        nodes=7,
        gpus_per_node=4,
        cpus_per_node=64,
        memory_mib_per_node=512000,
        node_groups=(
            NodeGroup(count=5, cpus=64, memory_mib=512000, gpus=4),
            NodeGroup(count=2, cpus=128, memory_mib=2048000, gpus=8),
        ),
        partitions=(
            Partition(name="gpu", priority_job_factor=5, max_time_s=172800),
            Partition(name="debug", nodes=(0, 1), priority_tier=2, max_time_s=1800),
            Partition(name="big", nodes=(5, 6), exclusive=True),
        ),
        qos=(
            Qos(name="normal", priority=10, max_cpus_pu=128, max_gpus_pu=16),
            Qos(name="high", priority=100, max_jobs_pu=2, max_submit_pu=5),
        ),
        shares=(("physics", 10), ("students", 5)),
        reservations=(
            Reservation(name="maint", start=1700000000, end=1700003600, nodes=(0, 1, 2)),
            Reservation(name="course", start=1700002800, end=1700010000, nodes=(2,)),
        ),
        select_type=SelectType.CONS_TRES,
        priority_weight_age=1008000,
        priority_max_age_s=7 * 86400,
        priority_weight_job_size=0,
        priority_decay_half_life_s=86400,
        priority_calc_period_s=300,
        sched_interval_s=60,
        default_queue_depth=1000,
        bf_interval_s=30,
        bf_window_s=2 * 86400,
        bf_resolution_s=60,
        bf_max_job_test=1000,
    )


def test_all_that_is_not_simulated_or_assumed_is_said_once() -> None:
    assert imported().notes == (
        "Not simulated: SchedulerParameters max_sched_time=60, bf_max_time=600.",
        "Out at the import, and up in this file: gpu05 IDLE+DRAIN.",
        "Not simulated of partition big: AllowQos=high.",
        "Reservation maint is for root: here its nodes stay empty.",
        "Reservation course is for students: here its nodes stay empty.",
        "Not simulated of reservation course: WEEKLY.",
        "Reservation licence has no nodes, or no times that read: left out.",
        "Not simulated of QOS normal: GrpTRES=cpu=999.",
        "Not simulated of QOS normal: MaxTRESPU of license/x.",
        "QOS normal limits GPUs by type: here all types together.",
        "The default QOS is normal: that of 2 of 3 associations.",
        "Fairshare=parent: Slurm ranks these users of an account equally, "
        "the simulator by what each user used: bea.",
        "Users have equal shares in the simulator, but not on this site: ann.",
        "Not simulated: limits of 1 associations: MaxJobs (1).",
    )


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("PreemptType", "preempt/qos", "preemption"),
        ("TopologyPlugin", "topology/tree", "topology"),
        ("Licenses", "matlab:10", "licences"),
        ("PriorityWeightTRES", "cpu=10", "priority by TRES"),
        ("PriorityWeightAssoc", "10", "the associations' own priority"),
        ("PriorityUsageResetPeriod", "MONTHLY", "resets of usage"),
        ("OverTimeLimit", "UNLIMITED", "jobs end at their limits"),
        ("JobRequeue", "0", "jobs that are not requeued by default"),
        ("PriorityFlags", "MAX_TRES,ACCRUE_ALWAYS", "MAX_TRES"),
        ("SchedulerType", "sched/hold", "backfilled nevertheless"),
        ("SchedulerType", "sched/builtin", "no backfill"),
    ],
)
def test_a_setting_that_is_not_simulated_is_said(key: str, value: str, what: str) -> None:
    assert what in said(imported(**{key: value}), key, what)


def test_the_time_over_the_limit_is_taken_over() -> None:
    assert imported(OverTimeLimit="5 min").params.over_time_limit_s == 300


def test_slurms_own_defaults_stand_where_nothing_is_set() -> None:
    site = imported(SchedulerParameters="(null)")
    found = site.params
    assert (found.sched_interval_s, found.default_queue_depth) == (60, 100)
    assert (found.bf_interval_s, found.bf_window_s, found.bf_resolution_s) == (30, 86400, 60)
    assert (found.bf_max_job_test, found.bf_max_job_user) == (500, 0)
    assert said(site, "bf_continue is not set")


def test_a_parameter_that_does_not_read_is_said_and_slurms_default_taken() -> None:
    site = imported(SchedulerParameters="bf_interval=often,bf_max_job_user=7,bf_continue")
    assert (site.params.bf_interval_s, site.params.bf_max_job_user) == (30, 7)
    assert said(site, "Slurm takes no bf_interval=often", "its default: 30")


@pytest.mark.parametrize(
    ("given", "field", "value", "is_said"),
    [
        ("bf_interval=-1", "bf_interval_s", OFF, False),
        ("sched_interval=-1", "sched_interval_s", OFF, False),
        ("SCHED_INTERVAL=-1", "sched_interval_s", OFF, False),
        ("bf_interval=45,bf_interval=-1", "bf_interval_s", 45, False),
        ("sched_interval=0", "sched_interval_s", 1, True),
        ("sched_interval=-2", "sched_interval_s", 60, True),
        ("bf_interval=0", "bf_interval_s", 30, True),
        ("bf_interval=10801", "bf_interval_s", 30, True),
        ("bf_interval=45s", "bf_interval_s", 45, False),
        ("bf_max_job_test=0", "bf_max_job_test", 500, True),
        ("bf_max_job_test=1000001", "bf_max_job_test", 500, True),
        ("bf_max_job_test=-1", "bf_max_job_test", 500, True),
        ("bf_max_job_user=0", "bf_max_job_user", 0, False),
        ("bf_window=43201", "bf_window_s", 86400, True),
        ("bf_resolution=0", "bf_resolution_s", 60, True),
        ("bf_max_job_test=" + "9" * 40, "bf_max_job_test", 500, True),
    ],
)
def test_parameters_mean_what_slurmctld_takes_them_for(
    given: str, field: str, value: int, is_said: bool
) -> None:
    """Ranges and defaults as sched_backfill.so and slurmctld of 22.05.8 have them."""
    site = imported(SchedulerParameters=f"{given},bf_continue")
    assert getattr(site.params, field) == value
    key = given.partition("=")[0].lower()
    assert any(key in note for note in site.notes) == is_said
    written = render_cluster_file(site.params, site.notes)
    assert parse_cluster_file(written, "C.toml").params == site.params


def test_the_builtin_scheduler_backfills_nothing() -> None:
    assert imported(SchedulerType="sched/builtin").params.bf_interval_s == OFF


def test_where_neither_scheduler_runs_the_file_is_warned_of() -> None:
    site = imported(SchedulerParameters="bf_interval=-1,sched_interval=-1")
    read = parse_cluster_file(render_cluster_file(site.params), "C.toml")
    assert read.warnings[0] == "sched_interval and bf_interval are both -1, so no job ever starts"


def test_the_flag_of_a_qos_that_the_simulator_has_is_taken_over_and_others_are_said() -> None:
    lines = [
        "Name|Priority|Flags|UsageFactor|MaxWall",
        "normal|0||1.000000|",
        "long|0|DenyOnLimit,PartitionTimeLimit|1.000000|30-00:00:00",
    ]
    for enforced in ("limits", "associations"):
        found = answers(AccountingStorageEnforce=enforced)
        texts = {**found.texts, slurm_answers.QOS: "\n".join(lines) + "\n"}
        site = convert_site(replace(found, texts=texts), UTC)
        assert [q.overrides_max_time for q in site.params.qos] == [False, True]
        assert said(site, "QOS long", "Flags=DenyOnLimit", "MaxWall=30-00:00:00")
        read = parse_cluster_file(render_cluster_file(site.params), "C.toml")
        assert read.params.qos == site.params.qos


RESERVED = "StartTime=1700000000 EndTime=1700003600 Nodes=gpu[01-02] NodeCnt=2 "


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ("CoreCnt=128 Flags=SPEC_NODES TRES=cpu=128", None),
        ("Flags=SPEC_NODES", None),
        ("CoreCnt=1 Flags=SPEC_NODES NodeName=gpu01 CoreIDs=0 TRES=cpu=1", "keeps 1 of the 128"),
        ("CoreCnt=64 Flags=SPEC_NODES TRES=cpu=64,gres/gpu=4", "keeps 64 of the 128 CPUs"),
        ("CoreCnt=4 Flags=SPEC_NODES", "keeps 4 of the 128 CPUs"),
        ("CoreCnt=0 Flags=SPEC_NODES TRES=gres/gpu=1", "keeps 0 of the 128 CPUs"),
        ("CoreCnt=128 Flags=TIME_FLOAT,SPEC_NODES TRES=cpu=128", "TIME_FLOAT"),
    ],
)
def test_parts_of_nodes_and_floating_starts_are_left_out_and_said(
    facts: str, why: str | None
) -> None:
    line = f"ReservationName=r {RESERVED}{facts} Users=watch State=ACTIVE"
    site = with_lines(slurm_answers.RESERVATIONS, [line])
    assert [r.nodes for r in site.params.reservations] == ([] if why else [(0, 1)])
    if why:
        assert said(site, "Reservation r ", why, "left out")


def test_cores_of_several_threads_are_several_cpus() -> None:
    nodes = [site_texts.node(f"gpu0{i}", ThreadsPerCore="2") for i in (1, 2)]
    line = f"ReservationName=r {RESERVED} CoreCnt=64 Flags=SPEC_NODES State=ACTIVE"
    found = answers()
    texts = {
        **found.texts,
        slurm_answers.NODES: "\n".join(nodes),
        slurm_answers.PARTITIONS: site_texts.partition("gpu", "gpu[01-02]"),
        slurm_answers.RESERVATIONS: line,
    }
    assert convert_site(replace(found, texts=texts), UTC).params.reservations[0].nodes == (0, 1)


def test_flags_and_weights() -> None:
    site = imported(
        PriorityFlags="ACCRUE_ALWAYS,CALCULATE_RUNNING",
        PriorityWeightFairShare="5",
        PriorityFavorSmall="Yes",
    )
    assert site.params.accrue_always
    assert site.params.priority_favor_small
    assert site.params.priority_weight_fairshare == 5
    assert not [n for n in site.notes if "PriorityFlags" in n]


def test_without_multifactor_there_are_no_weights() -> None:
    site = imported(PriorityType="priority/basic", PriorityWeightQOS="9")
    assert (site.params.priority_weight_age, site.params.priority_weight_qos) == (0, 0)
    assert said(site, "in order of submission")


def test_without_slurmdbd_age_and_fair_share_are_ignored_as_slurm_does() -> None:
    site = imported(
        AccountingStorageType="accounting_storage/none",
        PriorityWeightFairShare="5",
        PriorityWeightQOS="9",
    )
    found = site.params
    assert (found.priority_weight_age, found.priority_weight_fairshare) == (0, 0)
    assert found.priority_weight_qos == 9
    assert said(site, "Without slurmdbd")


def test_usage_that_never_decays_decays_slowly() -> None:
    site = imported(PriorityDecayHalfLife="00:00:00")
    assert site.params.priority_decay_half_life_s == 3650 * 86400
    assert said(site, "PriorityDecayHalfLife")


def test_limits_that_slurm_does_not_enforce_are_left_out() -> None:
    site = imported(AccountingStorageEnforce="associations")
    assert site.params.qos == (Qos(name="normal", priority=10), Qos(name="high", priority=100))
    assert said(site, "does not enforce limits")


def test_memory_counts_where_slurm_gives_it_out() -> None:
    site = imported(SelectTypeParameters="CR_CORE")
    assert site.params.memory_mib_per_node == 0
    assert {group.memory_mib for group in site.params.node_groups} == {0}
    assert said(site, "Memory is not counted")


def test_equal_nodes_are_no_groups() -> None:
    nodes = [site_texts.node(f"n{i}", gpus=0) for i in range(3)]
    found = answers()
    texts = {
        **found.texts,
        slurm_answers.NODES: "\n".join(nodes),
        slurm_answers.PARTITIONS: site_texts.partition("p", "n[0-9]"),
    }
    site = convert_site(replace(found, texts=texts), UTC)
    assert site.params.node_groups == ()
    assert (site.params.cpus_per_node, site.params.gpus_per_node) == (64, 0)
    assert site.params.partitions == (Partition(name="p", max_time_s=172800),)
    assert said(site, "partition p", "does not show: n3, n4")
    assert said(site, "No partition is the default one: here p")


def test_whole_cores_of_several_threads_are_said() -> None:
    nodes = [*site_texts.NODES, site_texts.node("x", ThreadsPerCore="2")]
    assert said(with_lines(slurm_answers.NODES, nodes), "whole cores")
    found = answers(SelectTypeParameters="CR_CPU_MEMORY")
    texts = {**found.texts, slurm_answers.NODES: "\n".join(nodes)}
    site = convert_site(replace(found, texts=texts), UTC)
    assert not [n for n in site.notes if "whole cores" in n]


def test_features_and_weights_of_nodes_are_said() -> None:
    nodes = [*site_texts.NODES, site_texts.node("x", AvailableFeatures="ib,a100", Weight="5")]
    site = with_lines(slurm_answers.NODES, nodes)
    assert said(site, "features", "a100, ib")
    assert said(site, "Weight of nodes")


def test_partitions_without_nodes_are_left_out_and_those_that_are_shut_are_said() -> None:
    lines = [
        site_texts.partition("p", "gpu01", State="DOWN", OverSubscribe="FORCE:4", Default="YES"),
        site_texts.partition("empty", "(null)"),
    ]
    site = with_lines(slurm_answers.PARTITIONS, lines)
    assert [p.name for p in site.params.partitions] == ["p"]
    assert said(site, "p is DOWN")
    assert said(site, "OverSubscribe=FORCE:4")
    assert said(site, "empty has no nodes")


def test_a_site_without_a_partition_that_has_nodes_cannot_be_simulated() -> None:
    with pytest.raises(MalformedText, match="nothing to simulate"):
        with_lines(slurm_answers.PARTITIONS, [site_texts.partition("empty", "(null)")])


def test_a_name_that_the_database_cannot_hold_is_changed_and_said() -> None:
    site = imported(ClusterName="my-cluster")
    assert site.params.name == "my_cluster"
    assert said(site, "'my-cluster'")


def test_without_accounting_there_is_a_site_all_the_same() -> None:
    found = answers()
    gone = (slurm_answers.QOS, slurm_answers.ASSOCIATIONS, slurm_answers.RESERVATIONS)
    texts = {q: text for q, text in found.texts.items() if q not in gone}
    missing = dict.fromkeys(gone, "sacctmgr: Connection refused (exit code 1)")
    site = convert_site(SiteAnswers(texts=texts, missing=missing), UTC)
    assert (site.params.qos, site.params.shares, site.params.reservations) == ((), (), ())
    assert said(site, "`sacctmgr -P show qos` gave no answer", "one QOS without limits")


def test_an_answer_that_does_not_read_is_left_out_and_said() -> None:
    site = with_lines(slurm_answers.ASSOCIATIONS, ["sacctmgr: half an answer"])
    assert site.params.shares == ()
    assert said(site, "`sacctmgr -P show assoc` does not read", "one share")


def test_accounts_below_accounts_are_said() -> None:
    lines = [
        "Cluster|Account|User|Share|ParentName",
        "testbed|root||1|",
        "testbed|science||4|root",
        "testbed|physics||3|science",
        "testbed|guests||parent|root",
    ]
    site = with_lines(slurm_answers.ASSOCIATIONS, lines)
    assert site.params.shares == (("science", 4), ("physics", 3), ("guests", 1))
    assert said(site, "Accounts below other accounts", "physics")
    assert said(site, "Fairshare=parent: accounts", "guests")


@settings(deadline=None)
@given(st.data())
def test_answers_cut_or_garbled_anywhere_are_left_out_or_refused(data: st.DataObject) -> None:
    found = answers()
    question = data.draw(st.sampled_from(slurm_answers.QUESTIONS))
    text = found.texts[question]
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(begin + 40, len(text))))
    garbled = text[:begin] + data.draw(st.text(max_size=8)) + text[end:]
    cut = data.draw(st.sampled_from([garbled, text[:begin]]))
    with suppress(MalformedText):
        site = convert_site(replace(found, texts={**found.texts, question: cut}), UTC)
        written = render_cluster_file(
            site.params, site.notes, node_names=compress_hostlist(site.node_names)
        )
        assert parse_cluster_file(written, "C.toml").params == site.params
