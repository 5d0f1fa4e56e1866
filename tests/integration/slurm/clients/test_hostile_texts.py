"""Ten thousand jobs whose texts are made to be taken for rows and fields, as Slurm prints them.

The same jobs with the same uids come out, none less and none more, and no text goes to another job.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.domain.chain import find_mark
from mirage.domain.job import Job, JobId
from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.query_gate import BackoffSettings
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.text.delimited_rows import parse_text
from tests.support.cluster.commands import FakeCommands
from tests.support.cluster.hostile_jobs import COMMON, HostileJob, JobMaker, decode_as_read, install
from tests.support.cluster.restd import FakeRestd
from tests.support.cluster.table_printer import text_with_lies
from tests.support.jobs import index_jobs
from tests.support.slurm.captured import answer

SEED = 20
COUNT, MANY_LIARS = 10_000, 30
SPAN = (1_600_000_000, 1_800_000_000)
QUICK = BackoffSettings(slow_s=600, first_pause_s=0, longest_pause_s=0)
HELPFORMAT = answer("sacct-helpformat.txt")


@pytest.fixture(scope="module")
def made() -> list[HostileJob]:
    """Of few users: each of them lies, and is lied about."""
    return JobMaker(SEED, users=6).jobs(COUNT)


@pytest.fixture
def cluster() -> SlurmCli:
    return SlurmCli(timeout_s=300, backoff=QUICK)


def who(jobs: Iterable[Job]) -> list[tuple[int, int, int | None, str]]:
    return sorted((job.job_id, job.submit, job.uid, job.user) for job in jobs)


def whose(jobs: Iterable[HostileJob]) -> list[tuple[int, int, int | None, str]]:
    return sorted((job.job_id, job.submit, job.uid, job.user) for job in jobs)


def printed(made: HostileJob, job: Job) -> bool:
    """Whether squeue's texts are what the user wrote, whatever fields stand around them."""
    pairs = (("Name", made.name, job.name), ("Comment", made.comment, job.comment))
    return all(
        told.startswith(decode_as_read(own))
        if field in made.lies
        else told in {decode_as_read(own), parse_text(decode_as_read(own))}
        for field, own, told in pairs
    )


def test_the_jobs_of_the_queue(
    commands: FakeCommands, cluster: SlurmCli, made: list[HostileJob], tmp_path: Path
) -> None:
    install(commands, tmp_path, made, helpformat=HELPFORMAT)
    told = cluster.fetch_queue()
    assert who(told) == whose(made)
    found = index_jobs(told)
    assert [job for job in made if not printed(job, found[job.job_id])] == []
    assert all(find_mark(found[job.job_id].comment) in job.marks() for job in made)


def misread(made: Iterable[HostileJob], told: Collection[Job]) -> list[HostileJob]:
    """Jobs with a text of accounting's that is not what their own users wrote."""
    found = index_jobs(told)
    return [job for job in made if not _own_texts(job, found[job.job_id])]


def _own_texts(made: HostileJob, job: Job) -> bool:
    if made.is_honest:
        written = (made.name, *map(parse_text, (made.comment, made.submit_line, made.account)))
        return (job.name, job.comment, job.submit_line, job.account) == tuple(
            map(decode_as_read, written)
        )
    if job.account not in {"", parse_text(decode_as_read(made.account))}:
        return False  # which its user does not write
    return {find_mark(job.comment), find_mark(job.submit_line)} <= made.marks()


def test_the_records_of_accounting(
    commands: FakeCommands, cluster: SlurmCli, made: list[HostileJob], tmp_path: Path
) -> None:
    """Users know the separator of each call here, and write rows with it before it is answered."""
    install(commands, tmp_path, made, helpformat=HELPFORMAT)
    told = list(cluster.fetch_history(*SPAN))
    assert who(told) == whose(made)
    assert misread(made, told) == []
    assert cluster.alarms.take_alarms(), "what they tried is told"


def test_records_by_their_numbers(
    commands: FakeCommands, cluster: SlurmCli, made: list[HostileJob], tmp_path: Path
) -> None:
    install(commands, tmp_path, made, helpformat=HELPFORMAT)
    some = made[::25]
    told = cluster.fetch_job_records([*(JobId(job.job_id) for job in some), JobId(10_000_001)])
    assert who(told) == whose(some)
    assert misread(some, told) == []


def test_of_many_liars_texts_may_be_lost_and_none_is_anothers(
    commands: FakeCommands, cluster: SlurmCli, tmp_path: Path
) -> None:
    made = JobMaker(SEED, users=MANY_LIARS).jobs(1000)
    install(commands, tmp_path, made, helpformat=HELPFORMAT)
    told = list(cluster.fetch_history(*SPAN))
    assert who(told) == whose(made)
    found = index_jobs(told)
    lost = misread(made, told)
    assert {(found[job.job_id].comment, found[job.job_id].submit_line) for job in lost} <= {
        ("", "")
    }
    assert cluster.alarms.take_alarms()


def test_nothing_is_read_from_scontrols_jobs(
    commands: FakeCommands, cluster: SlurmCli, made: list[HostileJob], tmp_path: Path
) -> None:
    """`show job` parts its keys by blanks: nobody could read it rightly, and nobody does."""
    table = install(commands, tmp_path, made[:100], helpformat=HELPFORMAT)
    cluster.fetch_queue()
    list(cluster.fetch_history(*SPAN))
    cluster.fetch_job_records([JobId(1)])
    assert Path(f"{table}.squeue").exists()
    assert not Path(f"{table}.scontrol").exists()


def test_a_job_of_two_users_makes_the_whole_answer_none(
    commands: FakeCommands, cluster: SlurmCli, made: list[HostileJob], tmp_path: Path
) -> None:
    """As if somebody had guessed squeue's separator after all."""
    victim = next(job for job in made if job.is_honest)
    liar = next(job for job in made if job.is_honest and job.uid != victim.uid)
    lie = COMMON | victim.row() | {"UserID": str(liar.uid), "Comment": "mirage:liarliar:1"}
    lied = [victim, replace(liar, lies={"Comment": [lie]})]
    install(commands, tmp_path, lied, helpformat=HELPFORMAT, separator_known=True)
    with pytest.raises(ClusterUnavailable, match=rf"job {victim.job_id}\b.* uid"):
        cluster.fetch_queue()
    assert cluster.alarms.take_alarms()
    install(commands, tmp_path, [victim, liar], helpformat=HELPFORMAT)
    assert who(cluster.fetch_queue()) == whose([victim, liar])


def as_json(jobs: Sequence[dict[str, Any]]) -> bytes:
    """As json-c writes it: bytes of texts as they are, but for what JSON escapes."""
    written = json.dumps({"errors": [], "jobs": jobs}, ensure_ascii=False)
    return written.encode("utf-8", "surrogateescape")


def queued(job: HostileJob) -> dict[str, Any]:
    told = {"job_id": job.job_id, "submit_time": job.submit, "user_id": job.uid}
    texts = {"name": as_raw(job, "Name", job.name), "comment": as_raw(job, "Comment", job.comment)}
    return told | texts | {"user_name": job.user, "account": job.account, "job_state": "PENDING"}


def recorded(job: HostileJob) -> dict[str, Any]:
    name, comment = as_raw(job, "JobName", job.name), as_raw(job, "Comment", job.comment)
    told = {"job_id": job.job_id, "user": job.user, "account": job.account, "name": name}
    told |= {"time": {"submission": job.submit}, "state": {"current": "PENDING", "reason": "None"}}
    return told | {"comment": {"job": comment}}


def as_raw(job: HostileJob, field: str, own: str) -> str:
    """With rows in it for a separator that its user did not know."""
    return text_with_lies(own, job.lies.get(field, ()), [field], 0, job.guess)


def test_the_jobs_of_slurmrestd(fake: FakeRestd, made: list[HostileJob]) -> None:
    """JSON parts texts by itself; bytes that are no UTF-8 cost their place in a text alone."""
    fake.answers("/slurm/v0.0.38/jobs", as_json([queued(job) for job in made]))
    fake.answers("/slurmdb/v0.0.38/jobs", as_json([recorded(job) for job in made]))
    slurm = Slurmrestd(RestHttp(fake.url, timeout_s=300), backoff=QUICK)
    queue, history = slurm.fetch_queue(), list(slurm.fetch_history(*SPAN))
    assert who(queue) == whose(made)
    assert changed(made, queue, "Name") == []
    # Its records have no uids: a chain is known by those of the queue.
    users = [(job_id, submit, user) for job_id, submit, _, user in whose(made)]
    assert [(job_id, submit, user) for job_id, submit, _, user in who(history)] == users
    assert changed(made, history, "JobName") == []
    some = made[::50]
    assert index_jobs(slurm.fetch_job_records([JobId(job.job_id) for job in some])).keys() == {
        job.job_id for job in some
    }


def changed(made: Iterable[HostileJob], told: Iterable[Job], name: str) -> list[HostileJob]:
    """Jobs whose texts are not told as they were written."""
    found = index_jobs(told)
    return [
        job
        for job in made
        if found[job.job_id].name != decode_as_read(as_raw(job, name, job.name))
        or found[job.job_id].comment != decode_as_read(as_raw(job, "Comment", job.comment))
    ]
