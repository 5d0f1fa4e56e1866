"""The texts that tests print of jobs: they read as the answers of a real Slurm do."""

from dataclasses import replace

import pytest

from mirage.domain.job import Job, JobState
from mirage.slurm.commands import sacct, squeue
from mirage.slurm.commands.sacct_texts import parse_texts
from tests.support.slurm.captured import SEPARATOR, Captures
from tests.support.slurm.printed_jobs import read_queue_job, reread_queue_job, reread_record


def _without_memory(job: Job) -> Job:
    """Mirage reads no memory but in traces, so none is printed."""
    return replace(job, memory_mib=0)


def test_a_queue_that_is_printed_again_reads_the_same(captures: Captures) -> None:
    jobs = squeue.parse_jobs(captures.answer("squeue.txt"), SEPARATOR)
    assert [reread_queue_job(job) for job in jobs] == jobs


def test_records_that_are_printed_again_read_the_same(captures: Captures) -> None:
    fields = sacct.choose_fields(captures.answer("sacct-helpformat.txt"))
    facts = sacct.parse_facts(captures.answer("sacct-jobs.txt"), fields.facts)
    answer = captures.answer("sacct-jobs-texts.txt")
    texts = parse_texts(answer, fields.texts, SEPARATOR, facts.keys())
    jobs = [_without_memory(job) for job in sacct.build_jobs(facts, texts.select_settled())]
    assert [reread_record(job) for job in jobs] == jobs


@pytest.mark.parametrize("state", JobState)
def test_each_state_is_printed(state: JobState) -> None:
    """squeue calls a job that waits again requeued; in accounting that is the run that ended."""
    read = JobState.PENDING if state is JobState.REQUEUED else state
    assert read_queue_job(state=state, start=5, end=9).state is read
