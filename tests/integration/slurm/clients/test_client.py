"""A cluster reached through commands: fake ones, which answer, fail, hang and stop half-way."""

import getpass
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.domain.job import JobId, JobState
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.query_gate import BackoffSettings
from mirage.slurm.text import delimited_rows
from tests.support.cluster.commands import FakeCommands
from tests.support.paths import DATA
from tests.support.patient import PATIENCE_S
from tests.support.slurm.captured import SDIAG, SEPARATOR, answer, job_id, outcome

QUEUE = answer("squeue.txt").replace("|", "/").replace(SEPARATOR, "|")
NODES = answer("sinfo.txt").replace(delimited_rows.SEPARATOR, "|")
RECORDS = answer("sacct-window.txt").replace("|", "/").replace(delimited_rows.SEPARATOR, "|")
TEXTS = answer("sacct-window-texts.txt").replace("|", "/").replace(SEPARATOR, "|")
HELPFORMAT = answer("sacct-helpformat.txt")
HEADER = RECORDS.partition("\n")[0] + "\n"
JOB = JobId(35)
ALICE = 1001
HERS = f"{JOB}|{ALICE}||PENDING|Dependency|1|afterany:3(unfulfilled)|\n"
"""What squeue says of it right before a move."""


@pytest.fixture
def cluster() -> SlurmCli:
    return SlurmCli(timeout_s=PATIENCE_S)


def test_the_queue_is_one_call(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("squeue", QUEUE)
    before = int(time.time())
    queue = cluster.fetch_queue()
    assert before <= queue.taken_at <= cluster.read_clock()
    assert len(queue) == 51
    running = queue.find_job(job_id("running"))
    assert running is not None
    assert running.state is JobState.RUNNING
    assert len(commands.calls("squeue")) == 1


def test_no_two_queries_have_the_same_separator(
    commands: FakeCommands, cluster: SlurmCli, tmp_path: Path
) -> None:
    """And no other user reads it: it is not among the arguments."""
    heard = tmp_path / "heard"
    commands.runs("squeue", f'#!/bin/sh\necho "$SQUEUE_FORMAT2 $*" >>{heard}\n')
    cluster.fetch_queue()
    cluster.fetch_queue()
    calls = [line.split(" ", 1) for line in heard.read_text().splitlines()]
    first, second = (form.split(",")[0].removeprefix("JobID:") for form, _ in calls)
    assert first != second
    assert min(len(first), len(second)) > 10
    assert not any(word in argv for _, argv in calls for word in (first, second, "\x1f"))


def test_nodes(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("sinfo", NODES)
    assert [node.name for node in cluster.fetch_nodes()] == [f"gpu0{i}" for i in range(1, 9)]


def test_the_sites_regime(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("scontrol", answer("scontrol-show-config.txt").replace("|", "/"))
    assert cluster.fetch_site_config().age_counts


def test_a_count_that_does_not_read_keeps_nobody_from_the_queue(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("squeue", QUEUE)
    commands.answers("sdiag", SDIAG)
    told, user = cluster.fetch_diagnosis()
    assert (len(told.users), user) == (4, getpass.getuser())
    commands.answers("sdiag", SDIAG[:-1000])
    with pytest.raises(ClusterUnavailable, match="sdiag's answer does not read"):
        cluster.fetch_diagnosis()
    assert len(cluster.fetch_queue()) == 51


@pytest.mark.parametrize("lost", [1, 10, 1000])
def test_an_answer_cut_half_way_is_not_a_shorter_queue(
    commands: FakeCommands, cluster: SlurmCli, lost: int
) -> None:
    commands.answers("squeue", QUEUE, cut=lost)
    with pytest.raises(ClusterUnavailable, match="squeue's answer does not read"):
        cluster.fetch_queue()


def test_half_an_answer_of_a_killed_command_is_none(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.runs("squeue", "#!/bin/sh\nprintf '12'\nkill -9 $$\n")
    with pytest.raises(ClusterUnavailable, match=r"squeue: no word of why .*signal 9"):
        cluster.fetch_queue()


def test_an_error_is_not_an_empty_queue(commands: FakeCommands, cluster: SlurmCli) -> None:
    said = outcome("slurmctld-down-squeue")
    commands.answers("squeue", said.stdout, stderr=said.stderr, code=said.code)
    with pytest.raises(ClusterUnavailable, match="Unable to contact slurm controller"):
        cluster.fetch_queue()


def test_success_with_an_error_on_stderr_is_not_an_empty_queue(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("squeue", "", stderr="slurm_load_jobs error: Socket timed out\n")
    with pytest.raises(ClusterUnavailable, match="Socket timed out"):
        cluster.fetch_queue()


def test_an_empty_queue_is_an_answer(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("squeue", "")
    assert len(cluster.fetch_queue()) == 0


def test_a_command_that_hangs_is_unavailable(commands: FakeCommands) -> None:
    commands.answers("squeue", QUEUE, seconds=60)
    with pytest.raises(ClusterUnavailable, match=r"did not answer within 0.3 s"):
        SlurmCli(timeout_s=0.3).fetch_queue()


@pytest.mark.parametrize(("pause_s", "asked_again"), [(3600.0, False), (0.001, True)])
def test_after_a_failure_it_is_left_alone_and_then_asked_again(
    commands: FakeCommands, pause_s: float, asked_again: bool
) -> None:
    cluster = SlurmCli(backoff=BackoffSettings(first_pause_s=pause_s, longest_pause_s=pause_s))
    commands.answers("squeue", stderr="slurm_load_jobs error: no\n", code=1)
    with pytest.raises(ClusterUnavailable):
        cluster.fetch_queue()
    commands.answers("squeue", QUEUE)
    if asked_again:
        time.sleep(0.01)  # ten times the pause
        assert len(cluster.fetch_queue()) == 51
    else:
        with pytest.raises(ClusterUnavailable, match="not asked for another"):
            cluster.fetch_queue()
        assert len(commands.calls("squeue")) == 1


def test_a_slow_answer_is_used_and_then_it_is_left_alone(commands: FakeCommands) -> None:
    cluster = SlurmCli(backoff=BackoffSettings(slow_s=0.2, first_pause_s=3600.0))
    commands.answers("squeue", QUEUE, seconds=0.4)
    assert len(cluster.fetch_queue()) == 51
    with pytest.raises(ClusterUnavailable, match="the last answer took"):
        cluster.fetch_queue()


def test_trouble_of_slurmdbd_does_not_keep_from_asking_slurmctld(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    said = outcome("slurmdbd-down-sacct")
    commands.answers("sacct", stderr=said.stderr, code=said.code, helpformat=HELPFORMAT)
    commands.answers("squeue", QUEUE)
    with pytest.raises(ClusterUnavailable, match="slurm_persist_conn_open"):
        cluster.fetch_job_records([JOB])
    assert len(cluster.fetch_queue()) == 51


def test_an_account_in_doubt_is_asked_about_alone(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    """As the real sacctmgr answered where a coordinator had forged rows."""
    folder = DATA / "slurm-22.05-accounting"
    script = f"""#!/bin/sh
        case "$*" in
        *adminlevel=Operator*) cat {folder}/level-operator.txt ;;
        *adminlevel=Administrator*) cat {folder}/level-administrator.txt ;;
        *account,coordinators*) cat {folder}/coordinators.txt ;;
        *name=*) cat "{folder}/coordinators-$(printf %s "$*" | sed 's/.*name=//; s/ .*//').txt" ;;
        esac 2>/dev/null
        exit 0
    """
    commands.runs("sacctmgr", script)
    roster = cluster.fetch_roster()
    assert roster.operators == {"mirage", "root"}
    no_account = "r"
    assert roster.coordinated == {"alice": {"research", no_account}, "y": {"research"}}


def test_accounts_in_doubt_without_end_cost_a_hundred_questions(
    commands: FakeCommands, cluster: SlurmCli, tmp_path: Path
) -> None:
    rows = "".join(f"a{n}|x\n" * 2 for n in range(300))
    (tmp_path / "rows").write_text(rows)
    heard = tmp_path / "heard"
    script = f"""#!/bin/sh
        echo "$*" >>{heard}
        case "$*" in *account,coordinators*) cat {tmp_path}/rows ;; esac
    """
    commands.runs("sacctmgr", script)
    assert cluster.fetch_roster().coordinated == {}
    assert sum("name=" in line for line in heard.read_text().splitlines()) == 100
    (alarm,) = cluster.alarms.take_alarms()
    assert "100 are queried one by one, 200 are left out" in alarm


def test_history_asks_for_facts_then_for_texts_and_gives_each_record_once(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("sacct", RECORDS, texts=TEXTS, helpformat=HELPFORMAT)
    jobs = list(cluster.fetch_history(5000, 7500))
    assert len({(job.job_id, job.submit) for job in jobs}) == len(jobs) > 30
    spans = [
        [word.partition("=uts")[2] for word in call if "time=uts" in word]
        for call in commands.calls("sacct")[1:]
    ]
    assert spans == [["5000", "7500"]] * 2
    assert {job.comment for job in jobs} > {"", "mirage:c0:0"}


def test_an_empty_span_asks_nothing(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("sacct", HEADER, helpformat=HELPFORMAT)
    assert list(cluster.fetch_history(5000, 5000)) == []
    assert commands.calls("sacct") == []


def test_history_where_accounting_is_off_is_refused(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("sacct", stderr="Slurm accounting storage is disabled\n", code=1)
    for _ in range(2):
        with pytest.raises(ClusterRefused, match="accounting storage is disabled"):
            list(cluster.fetch_history(0, 100))


def test_the_fields_of_sacct_are_asked_for_once(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("sacct", HEADER, helpformat=HELPFORMAT)
    cluster.fetch_job_records([JOB])
    cluster.fetch_job_records([JOB])
    assert sum("--helpformat" in call for call in commands.calls("sacct")) == 1


def test_jobs_are_asked_for_in_chunks_and_absent_ones_left_out(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("sacct", RECORDS, texts=TEXTS, helpformat=HELPFORMAT)
    wanted = [JobId(i) for i in range(4, 504)]
    found = cluster.fetch_job_records([*wanted, *wanted])
    assert {job.job_id for job in found} <= set(wanted)
    assert job_id("completed") in {job.job_id for job in found}
    sizes = [
        len(word.removeprefix("--jobs=").split(","))
        for call in commands.calls("sacct")
        for word in call
        if word.startswith("--jobs=")
    ]
    assert sizes == [200, 200, 200, 200, 100, 100], "facts and texts of each"


def test_no_ids_ask_nothing(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("sacct", HEADER, helpformat=HELPFORMAT)
    assert cluster.fetch_job_records([]) == []
    assert commands.calls("sacct") == []


def test_each_move_is_one_command(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("squeue", HERS)
    commands.answers("scontrol")
    commands.answers("scancel")
    cluster.free_standby(JOB, owner=ALICE, dependency="afterok:4(unfulfilled)")
    cluster.set_dependency(JOB, owner=ALICE, dependency="afterany:3,afterok:4")
    cluster.cancel_job(JOB, owner=ALICE)
    assert commands.calls("scontrol") == [
        ["update", "JobId=35", "Dependency=afterok:4"],
        ["update", "JobId=35", "Dependency=afterany:3,afterok:4"],
    ]
    assert [call[-1] for call in commands.calls("scancel")] == ["35"]


def test_a_job_unknown_to_scancel_is_refused(commands: FakeCommands, cluster: SlurmCli) -> None:
    said = "scancel: error: Kill job error on job id 35: Invalid job id specified\n"
    commands.answers("squeue", HERS)
    commands.answers("scancel", stderr=f"scancel: Terminating job 35\n{said}")
    with pytest.raises(ClusterRefused, match="Invalid job id"):
        cluster.cancel_job(JOB, owner=ALICE)


def test_cancelling_a_job_that_is_over_is_no_error(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    said = "Kill job error on job id 35: Job/step already completing or completed\n"
    commands.answers("squeue", HERS)
    commands.answers("scancel", stderr=f"scancel: Terminating job 35\nscancel: error: {said}")
    cluster.cancel_job(JOB, owner=ALICE)


def test_what_mirage_pinned_it_unpins_and_a_users_nodes_stay(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("scontrol")
    commands.answers("squeue", HERS)
    cluster.pin_standby(JOB, owner=ALICE, dependency="", node_list="gpu01")
    cluster.free_standby(JOB, owner=ALICE, dependency="")
    cluster.free_standby(JOB, owner=ALICE, dependency="")
    cluster.set_dependency(JOB, owner=ALICE, dependency="afterany:3", unpin=True)
    pinned, unpinned, users, told = commands.calls("scontrol")
    assert pinned[-1] == "ReqNodeList=gpu01"
    assert unpinned[-1] == told[-1] == "ReqNodeList="
    assert users[-1] == "Dependency="


def test_nobody_is_pinned_whose_own_nodes_are_not_known(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("scontrol")
    commands.answers("squeue", stderr="squeue: error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(ClusterUnavailable):
        cluster.pin_standby(JOB, owner=ALICE, dependency="", node_list="gpu01")
    commands.answers("squeue", HERS, cut=1)
    with pytest.raises(ClusterUnavailable, match="does not read"):
        cluster.pin_standby(JOB, owner=ALICE, dependency="", node_list="gpu01")
    assert commands.calls("scontrol") == []


@pytest.mark.parametrize("name", ["update-by-another-user", "update-ended-job"])
def test_a_move_that_slurm_refuses(commands: FakeCommands, cluster: SlurmCli, name: str) -> None:
    said = outcome(name)
    commands.answers("squeue", HERS)
    commands.answers("scontrol", said.stdout, stderr=said.stderr, code=said.code)
    with pytest.raises(ClusterRefused, match=said.stderr.strip()):
        cluster.free_standby(JOB, owner=ALICE, dependency="")


def test_a_move_that_nobody_heard_may_be_tried_again(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    said = outcome("slurmctld-down-scontrol-update")
    commands.answers("squeue", HERS)
    commands.answers("scontrol", said.stdout, stderr=said.stderr, code=said.code)
    for _ in range(2):
        with pytest.raises(ClusterUnavailable, match="Unexpected message received"):
            cluster.free_standby(JOB, owner=ALICE, dependency="")
    assert len(commands.calls("scontrol")) == 2


def test_moves_are_made_while_queries_back_off(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("squeue", code=1)
    commands.answers("scontrol")
    with pytest.raises(ClusterUnavailable):
        cluster.fetch_queue()
    commands.answers("squeue", HERS)
    cluster.free_standby(JOB, owner=ALICE, dependency="")
    assert len(commands.calls("scontrol")) == 1


def test_a_job_that_slurm_gives_to_somebody_else_is_not_touched(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    commands.answers("scontrol")
    commands.answers("scancel")
    commands.answers("squeue", HERS.replace(str(ALICE), "1002"))
    moves: list[Callable[[], None]] = [
        lambda: cluster.free_standby(JOB, owner=ALICE, dependency=""),
        lambda: cluster.set_dependency(JOB, owner=ALICE, dependency=""),
        lambda: cluster.pin_standby(JOB, owner=ALICE, dependency="", node_list="gpu01"),
        lambda: cluster.hold_job(JOB, owner=ALICE),
        lambda: cluster.release_job(JOB, owner=ALICE),
        lambda: cluster.cancel_job(JOB, owner=ALICE),
    ]
    for move in moves:
        with pytest.raises(ClusterRefused, match="job 35 belongs to uid 1002"):
            move()
    assert commands.calls("scontrol") == commands.calls("scancel") == []


def test_what_it_cost_is_counted(commands: FakeCommands, cluster: SlurmCli) -> None:
    commands.answers("squeue", QUEUE)
    cluster.fetch_queue()
    usage = cluster.get_usage()["squeue"]
    assert (usage.calls, usage.failures) == (1, 0)
    assert usage.seconds > 0
