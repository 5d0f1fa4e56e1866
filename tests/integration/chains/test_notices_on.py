"""Notices that are turned on tell nothing of what ended before: worker rounds over one database."""

from dataclasses import dataclass

import pytest
from sqlalchemy import select

from mirage.chains.notices.notices import Channel, NoticeRecorder
from mirage.database.events import outbox
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import notices, situations
from mirage.domain.job import Job, JobState
from mirage.policies.rules.lead_rules import Reactive
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from tests.support.provision.slurm_jobs import (
    HOUR,
    NOW,
    WrittenCluster,
    ended,
    register,
    running,
    standby,
)

DAY = 86400
ON, OFF = NoticeRecorder(channels=(Channel.OWNER,)), None


@dataclass
class Rounds:
    """The worker's rounds, each perhaps of another process with other settings."""

    store: Store

    def run(self, recorder: NoticeRecorder | None, at: int, *jobs: Job) -> list[tuple[str, str]]:
        """One round at that instant; return (event, state) of all notices that were written."""
        settings = DecisionSettings(get_policy=lambda _: Reactive(), default_policy="reactive")
        Worker(
            self.store, WrittenCluster(*jobs, now=at), 1, settings=settings, notices=recorder
        ).run_tick()
        with self.store.read() as tx:
            rows = tx.execute(select(notices.c.event, notices.c.state).order_by(notices.c.id))
            return [(row.event, row.state) for row in rows]


@pytest.fixture
def rounds(lab_store: Store) -> Rounds:
    return Rounds(lab_store)


def end_all(at: int) -> list[Job]:
    return [ended(i, JobState.TIMEOUT, at - HOUR, at) for i in (1, 2)]


def test_a_chain_that_ended_an_hour_before_mail_was_configured_is_no_news(rounds: Rounds) -> None:
    register(rounds.store, links=2, now=NOW - HOUR)
    rounds.run(OFF, NOW, running(1), standby(2))
    rounds.run(OFF, NOW + HOUR, *end_all(NOW + HOUR - 9))
    assert rounds.run(ON, NOW + 2 * HOUR) == []
    assert rounds.run(ON, NOW + 2 * HOUR + 60) == []


def test_a_chain_that_ended_while_notices_were_off_is_no_news(rounds: Rounds) -> None:
    register(rounds.store, links=2, now=NOW - HOUR)
    rounds.run(ON, NOW, running(1), standby(2))
    rounds.run(OFF, NOW + 60, running(1), standby(2))
    rounds.run(OFF, NOW + HOUR, *end_all(NOW + HOUR - 9))
    assert rounds.run(ON, NOW + 20 * DAY) == []


def test_a_release_that_kept_old_situations_makes_no_news_of_weeks_ago(rounds: Rounds) -> None:
    """While notices were off, it forgot nothing of how chains stood."""
    register(rounds.store, links=2, now=NOW - HOUR)
    rounds.run(ON, NOW, running(1), standby(2))
    with rounds.store.read() as tx:
        kept = [dict(row) for row in tx.execute(select(situations)).mappings()]
    rounds.run(OFF, NOW + HOUR, *end_all(NOW + HOUR - 9))
    with rounds.store.begin() as tx:
        tx.execute(situations.insert(), kept)
    assert rounds.run(ON, NOW + 20 * DAY) == []


def test_what_waited_to_be_sent_when_notices_went_off_is_given_up(rounds: Rounds) -> None:
    register(rounds.store, links=2, now=NOW - HOUR)
    rounds.run(ON, NOW, running(1), standby(2))
    assert rounds.run(ON, NOW + HOUR, *end_all(NOW + HOUR - 9)) == [("ended", "pending")]
    assert rounds.run(OFF, NOW + HOUR + 60) == [("ended", "given-up")]
    assert rounds.run(ON, NOW + 20 * DAY) == [("ended", "given-up")]
    with rounds.store.read() as tx:
        assert outbox.list_due_deliveries(tx, 1, NOW + 20 * DAY) == []


def test_a_chain_that_ended_while_the_service_was_down_is_told(rounds: Rounds) -> None:
    register(rounds.store, links=2, now=NOW - HOUR)
    rounds.run(ON, NOW, running(1), standby(2))
    told = rounds.run(ON, NOW + 2 * DAY, *end_all(NOW + 2 * DAY - 9))
    assert told == [("ended", "pending")]


def test_after_notices_were_turned_on_a_new_chain_is_told_of(rounds: Rounds) -> None:
    rounds.run(OFF, NOW - HOUR)
    rounds.run(ON, NOW - 60)
    register(rounds.store, links=2, now=NOW - 30)
    assert rounds.run(ON, NOW, *end_all(NOW - 9)) == [("ended", "pending")]
