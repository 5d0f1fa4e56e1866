"""What is told of a chain, and when: written with the change, once."""

from contextlib import suppress
from dataclasses import replace

from sqlalchemy import select

from mirage.chains import lifecycle as chain_service
from mirage.chains import link_sync as link_service
from mirage.chains.notices.notices import Channel, NoticeEvent, NoticeRecorder
from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import notices
from mirage.domain.chain import ChainState
from mirage.domain.chain_cause import ChainRisk, Reason, Risk, build_mirage_cause
from mirage.domain.job import Job, JobId, JobState
from tests.support.provision.slurm_jobs import CHAIN, HOUR, NOW, ended, running, standby

RECORDER = NoticeRecorder(channels=(Channel.OWNER, Channel.WEBHOOK), interruption_s=HOUR)
DAY = 86400


def look(store: Store, *jobs: Job, now: int = NOW, recorder: NoticeRecorder = RECORDER) -> None:
    with store.begin() as tx:
        link_service.sync_links(tx, 1, jobs, now)
        chain_service.advance_chains(tx, 1, now)
        recorder.record_news(tx, 1, now)


def told(store: Store, channel: Channel = Channel.OWNER) -> list[tuple[str, str]]:
    with store.read() as tx:
        query = select(notices.c.event, notices.c.says).where(notices.c.channel == channel.value)
        return [(row.event, row.says) for row in tx.execute(query.order_by(notices.c.id))]


def events(store: Store) -> list[str]:
    return [event for event, _ in told(store)]


def at_risk(store: Store, of: ChainRisk | None) -> None:
    with store.begin() as tx:
        chain = chains.get_chain(tx, 1, CHAIN)
        chains.save_chain(tx, 1, replace(chain, at_risk=of))
        RECORDER.record_news(tx, 1, NOW)


def done(index: int, end: int) -> Job:
    return ended(index, JobState.TIMEOUT, end - HOUR, end)


def test_an_ordinary_life_is_told_of_at_its_end_alone(chain_store: Store) -> None:
    look(chain_store, running(1), standby(2))
    assert told(chain_store) == []
    look(chain_store, done(1, NOW), done(2, NOW), done(3, NOW))
    assert told(chain_store) == [("ended", "the chain is finished: all 3 links ran")]
    assert told(chain_store, Channel.WEBHOOK) == told(chain_store), "a row for each channel"
    look(chain_store, now=NOW + 60)
    assert len(told(chain_store)) == 1, "once"


def test_a_risk_is_told_with_its_advice_and_so_is_its_end(chain_store: Store) -> None:
    look(chain_store, running(1), standby(2))
    held = ChainRisk(of=Risk.HINDERED, link=2, job_id=JobId(12), detail="JobHeldAdmin")
    at_risk(chain_store, held)
    ((event, says),) = told(chain_store)
    assert event == NoticeEvent.AT_RISK
    assert says.startswith("link 2 (job 12) waits: an admin holds it. Ask the admins why")
    at_risk(chain_store, replace(held, job_id=JobId(13)))
    assert len(told(chain_store)) == 1, "the same risk"
    at_risk(chain_store, None)
    assert events(chain_store)[1:] == [NoticeEvent.NORMAL]


def test_a_vanished_standby_has_a_word_of_its_own(chain_store: Store) -> None:
    look(chain_store, running(1), standby(2))
    at_risk(chain_store, ChainRisk(of=Risk.VANISHED, link=2, job_id=JobId(12), detail="CANCELLED"))
    assert events(chain_store) == [NoticeEvent.STANDBY_VANISHED]


def test_what_a_user_asked_for_is_told_at_the_next_look(chain_store: Store) -> None:
    look(chain_store, running(1), standby(2))
    with chain_store.begin() as tx:
        chain = chains.get_chain(tx, 1, CHAIN)
        chain_service.request_state(tx, 1, chain, ChainState.PAUSED, now=NOW, actor="root")
    look(chain_store, running(1), standby(2), now=NOW + 60)
    assert told(chain_store) == [("paused", "the chain is paused: paused by root")]


def test_an_interruption_is_told_once_it_is_long_and_again_when_it_ends(chain_store: Store) -> None:
    look(chain_store, running(1, start=NOW - HOUR), standby(2))
    ended_at = NOW + 60
    look(chain_store, done(1, ended_at), standby(2), now=ended_at + HOUR)
    assert told(chain_store) == []
    look(chain_store, standby(2), now=ended_at + HOUR + 1)
    assert told(chain_store) == [("interrupted", "no link has run for more than 1 h")]
    look(chain_store, standby(2), now=ended_at + 3 * HOUR)
    assert len(told(chain_store)) == 1
    look(chain_store, running(2, start=ended_at + 4 * HOUR), now=ended_at + 4 * HOUR + 60)
    assert events(chain_store)[1:] == [NoticeEvent.NORMAL]


def test_a_chain_that_waits_for_its_first_link_is_not_interrupted(chain_store: Store) -> None:
    look(chain_store, standby(1), now=NOW + 10 * HOUR)
    assert told(chain_store) == []


def test_chains_of_before_notices_were_turned_on_are_no_news(chain_store: Store) -> None:
    late = NOW + 3 * DAY
    look(chain_store, running(1), standby(2), recorder=NoticeRecorder(channels=()))
    with chain_store.begin() as tx:
        tx.exec_driver_sql("DELETE FROM situations")
        chain = chains.get_chain(tx, 1, CHAIN)
        chains.save_chain(tx, 1, replace(chain, at_risk=ChainRisk(of=Risk.NO_STANDBY, link=1)))
        RECORDER.record_news(tx, 1, late)
    assert told(chain_store) == []


def test_a_chain_that_came_and_went_between_two_looks_is_told_of(chain_store: Store) -> None:
    with chain_store.begin() as tx:
        chain = chains.get_chain(tx, 1, CHAIN)
        cause = build_mirage_cause(Reason.LINK_ENDED, 1, JobId(11), "FAILED")
        chains.save_chain(tx, 1, replace(chain, state=ChainState.FAILED, cause=cause))
        RECORDER.record_news(tx, 1, NOW)
    assert told(chain_store) == [("ended", "the chain is failed: ended with link 1, FAILED")]


def test_a_change_that_is_rolled_back_leaves_no_notice(chain_store: Store) -> None:
    look(chain_store, running(1), standby(2))

    class CrashError(Exception):
        """The process dies."""

    links = (done(1, NOW), done(2, NOW), done(3, NOW))
    with suppress(CrashError), chain_store.begin() as tx:
        link_service.sync_links(tx, 1, links, NOW)
        chain_service.advance_chains(tx, 1, NOW)
        RECORDER.record_news(tx, 1, NOW)
        raise CrashError
    assert told(chain_store) == []
    look(chain_store, *links)
    assert events(chain_store) == [NoticeEvent.ENDED]
