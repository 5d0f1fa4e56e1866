"""Notices on their way: real mail and webhooks, limits, back-off, and a server that is dead."""

import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from mirage.chains.notices.digest import Digest
from mirage.chains.notices.notice_delivery import (
    CLAIM_S,
    MAX_TRIES,
    Courier,
    Pace,
    compute_backoff_s,
)
from mirage.chains.notices.notices import Channel, NoticeEvent, enqueue_admin_notice
from mirage.config.settings import NotifySettings, load_settings
from mirage.database.chains import chains
from mirage.database.events import audit, outbox
from mirage.database.events.outbox import Notice, NoticeState
from mirage.database.jobs import queue_sums
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import notices
from mirage.domain.chain import ChainId, Style
from mirage.domain.time_units import HOUR_S as HOUR
from mirage.errors import ConfigError
from mirage.service import notice_channels
from tests.support.notify.receiver import run_receiver
from tests.support.notify.smtp_server import Post, serving
from tests.support.provision import slurm_jobs

NOW = 1_800_000_000
FIRST, SECOND = ChainId("firstchain1"), ChainId("secondchain")


@dataclass
class Clock:
    at: int = NOW

    def __call__(self) -> int:
        return self.at


@dataclass
class Site:
    """A courier with real senders on a clock that the test moves."""

    store: Store
    notify: NotifySettings
    pace: Pace = field(default_factory=Pace)
    clock: Clock = field(default_factory=Clock)

    def courier(self) -> Courier:
        return Courier(
            store=self.store,
            cluster_id=1,
            cluster="lab",
            senders=notice_channels.build_senders(self.notify),
            clock=self.clock,
            pace=self.pace,
        )

    def post(
        self,
        event: str,
        chain_id: ChainId = FIRST,
        *,
        user: str = "alice",
        channel: str = "owner",
        says: str = "so it is",
    ) -> None:
        new = Notice(
            cluster_id=1,
            chain_id=chain_id,
            user=user,
            channel=channel,
            event=event,
            says=says,
            at=self.clock(),
        )
        with self.store.begin() as tx:
            outbox.enqueue_notices(tx, [new])

    def states(self) -> list[str]:
        with self.store.read() as tx:
            return list(tx.scalars(select(notices.c.state).order_by(notices.c.id)))


def by_mail(post: Post, owner: str | None = "{user}@example.org") -> NotifySettings:
    return NotifySettings(
        smtp_host="127.0.0.1",
        smtp_port=post.port,
        smtp_security="none",
        mail_from="mirage@example.org",
        owner_address=owner,
        admin_addresses=("hpc@example.org",),
    )


def test_what_happened_to_a_chain_is_one_digest(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        site.post("at-risk", says="link 2 waits: an admin holds it")
        site.post("normal", says="a link runs")
        site.post("ended", SECOND)
        assert site.courier().deliver_due() == 2
    assert post.recipients == ["<alice@example.org>"] * 2
    assert post.messages[0]["Subject"] == f"[mirage] lab: chain {SECOND}: ended", "it is urgent"
    second = post.messages[1]
    assert second["Subject"] == f"[mirage] lab: chain {FIRST}: normal and 1 more"
    text = second.get_payload()
    assert "2027-01-15 08:00 UTC  at-risk: link 2 waits: an admin holds it" in text
    assert f"mirage chain show {FIRST}" in text
    assert set(site.states()) == {NoticeState.SENT}


def test_news_of_the_service_itself_goes_to_admins_and_to_no_owner(
    lab_store: Store,
) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        channels = tuple(Channel(name) for name in notice_channels.build_senders(site.notify))
        assert Channel.OWNER in channels
        with lab_store.begin() as tx:
            enqueue_admin_notice(
                tx, 1, channels, NoticeEvent.MODEL_PROPOSED, "models/site-lab/1 is proposed", NOW
            )
        assert site.courier().deliver_due() == 1
    assert post.recipients == ["<hpc@example.org>"]
    (message,) = post.messages
    assert message["Subject"] == "[mirage] lab: model-proposed"
    lines = str(message.get_payload()).splitlines()
    assert lines[0] == "The service Mirage on lab:"
    assert "2027-01-15 08:00 UTC  model-proposed: models/site-lab/1 is proposed" in lines
    assert not any("mirage chain" in line for line in lines)


def test_a_digest_says_when_the_next_link_starts_and_how_often_links_gave_their_nodes_back(
    lab_store: Store,
) -> None:
    slurm_jobs.register(lab_store, now=NOW - HOUR, style=Style.SEQUENTIAL)
    first = slurm_jobs.running(1, start=NOW - 60, time_limit_s=HOUR)
    slurm_jobs.sync(lab_store, first, slurm_jobs.standby(2), now=NOW)
    second = slurm_jobs.links(lab_store)[2]
    with lab_store.begin() as tx:
        chains.save_link(tx, 1, replace(second, returns=2, planned_start=NOW + 2 * HOUR))
        queue_sums.add_snapshot(tx, 1, NOW, {})
    with serving() as post:
        site = Site(lab_store, by_mail(post), clock=Clock(NOW + 120))
        site.post("at-risk", slurm_jobs.CHAIN)
        site.post("ended", FIRST)
        assert site.courier().deliver_due() == 2
    unknown, known = (bytes(message.get_payload(decode=True)).decode() for message in post.messages)
    sentence = (
        "Link 2 is expected to start at 2027-01-15 10:00 (8 of 10 times between 2027-01-15 08:59 "
        "and 2027-01-15 11:56), as of 2027-01-15 08:00 UTC."
    )
    assert sentence in known.splitlines()
    assert "Early links of this chain gave their nodes back 2 times." in known.splitlines()
    assert "expected" not in unknown


def test_a_chain_is_told_of_at_most_every_quarter_of_an_hour(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        for event in ("at-risk", "normal", "at-risk"):
            site.post(event)
            site.courier().deliver_due()
            site.clock.at += 60
        assert len(post.messages) == 1
        site.clock.at = NOW + 900
        assert site.courier().deliver_due() == 1
        assert "normal" in post.messages[1].get_payload()
        assert site.states() == [NoticeState.SENT] * 3


def test_no_more_than_so_many_in_an_hour_go_and_none_is_lost(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post), Pace(max_per_hour=3))
        for i in range(8):
            site.post("ended", ChainId(f"chain{i:05}"), user=f"user{i}")
        for minute in range(0, 60, 5):
            site.clock.at = NOW + 60 * minute
            site.courier().deliver_due()
        assert len(post.messages) == 3
        for minute in range(60, 240, 5):
            site.clock.at = NOW + 60 * minute
            site.courier().deliver_due()
        assert len(post.messages) == 8


def test_one_owners_chains_leave_mails_to_those_who_come_later(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post), Pace(max_per_hour=8))
        for i in range(20):
            site.post("interrupted", ChainId(f"chain{i:05}"), user="mallory")
        assert site.courier().deliver_due() == 4
        for minute, user in enumerate(("bea", "carl", "dora"), start=1):
            site.clock.at = NOW + 60 * minute
            site.post("normal", ChainId(f"chainof{user}"), user=user)
            assert site.courier().deliver_due() == 1
        site.clock.at = NOW + 3600
        while site.courier().deliver_due():
            site.clock.at += 3600
    assert post.recipients[4:7] == [f"<{u}@example.org>" for u in ("bea", "carl", "dora")]
    assert len(post.recipients) == 23, "no mail is lost"


def test_a_flood_through_one_channel_keeps_nothing_of_another_waiting(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post), Pace(max_per_hour=3))
        for i in range(8):
            site.post("interrupted", ChainId(f"chain{i:05}"), user=f"user{i}", channel="admins")
        site.clock.at = NOW + 60
        site.post("normal", channel="owner")
        with capture_logs() as said:
            assert site.courier().deliver_due() == 4
            assert site.courier().deliver_due() == 0
    assert post.recipients.count("<alice@example.org>") == 1
    assert post.recipients.count("<hpc@example.org>") == 3
    late = [entry for entry in said if "max_per_hour" in entry["event"]]
    assert [(entry["channel"], entry["waiting"]) for entry in late] == [("admins", 5)] * 2


def test_what_is_urgent_goes_before_what_waits_longer(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post), Pace(max_per_hour=3))
        for i, event in enumerate(("normal", "normal", "at-risk", "at-risk", "interrupted")):
            site.clock.at = NOW + i
            site.post(event, ChainId(f"chain{i:05}"), user=f"user{i}")
        site.courier().deliver_due()
    told = [str(message["Subject"]).rpartition("chain ")[2] for message in post.messages]
    assert told == ["chain00004: interrupted", "chain00002: at-risk", "chain00003: at-risk"]


def test_a_server_that_is_away_is_tried_again_and_given_up_at_last(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post))
    site.post("ended")
    with capture_logs() as said:
        for _ in range(200):
            site.courier().deliver_due()
            site.clock.at += 600
    tries = [entry for entry in said if entry["event"].startswith("notice not sent")]
    assert len(tries) == MAX_TRIES - 1
    assert [entry["log_level"] for entry in said if entry["event"] == "notice given up"] == [
        "error"
    ]
    assert site.states() == [NoticeState.GIVEN_UP]
    with lab_store.read() as tx:
        (entry,) = audit.list_entries(tx, 1, event="notice given up")
    assert entry.chain_id == FIRST


def test_a_mistake_in_sending_holds_up_nobody_else_and_is_given_up(lab_store: Store) -> None:
    sent: list[str] = []

    def fails(digest: Digest, _now: int) -> None:
        raise ValueError("https://hooks.example/secret")

    site = Site(lab_store, NotifySettings())
    site.post("ended")
    site.post("ended", SECOND, channel="webhook")
    senders = {"owner": fails, "webhook": lambda digest, _now: sent.append(digest.delivery)}
    with capture_logs() as said:
        for _ in range(2 * MAX_TRIES):
            replace(site.courier(), senders=senders).deliver_due()
            site.clock.at += 3600
    assert len(sent) == 1
    assert site.states() == [NoticeState.GIVEN_UP, NoticeState.SENT]
    assert "secret" not in str(said)


def test_the_back_off_doubles_to_an_hour() -> None:
    assert [compute_backoff_s(n) for n in (1, 2, 3, 7, 50)] == [60, 120, 240, 3600, 3600]


def test_what_came_while_a_try_waits_goes_with_it(lab_store: Store) -> None:
    with serving(Post(refuses="DATA")) as post:
        site = Site(lab_store, by_mail(post))
        site.post("at-risk")
        site.courier().deliver_due()
        post.refuses = ""
        site.post("normal")
        assert site.courier().deliver_due() == 0
        site.clock.at += compute_backoff_s(1)
        assert site.courier().deliver_due() == 1
    assert "and 1 more" in post.messages[0]["Subject"]


def test_one_who_dies_between_sending_and_writing_sends_again(lab_store: Store) -> None:
    """At least once."""
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        site.post("ended")
        with lab_store.begin() as tx:
            claimed = outbox.claim_notices(tx, 1, "owner", FIRST, now=NOW, until=NOW + CLAIM_S)
        assert len(claimed) == 1
        assert site.courier().deliver_due() == 0, "somebody has it"
        site.clock.at += CLAIM_S
        assert site.courier().deliver_due() == 1
    assert len(post.messages) == 1


@pytest.mark.parametrize("user", ["", "a\r\nRCPT TO:<b@c.d>", "a b", "x@y", "<script>"])
def test_a_name_that_makes_no_address_gets_no_mail(lab_store: Store, user: str) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        site.post("ended", user=user)
        assert site.courier().deliver_due() == 0
    assert post.recipients == []


def test_words_of_users_move_no_line(lab_store: Store) -> None:
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        site.post("ended", says="evil\r\n.\r\nMAIL FROM:<x@y.z>\n\x1b[2J", channel="admins")
        site.courier().deliver_due()
    (message,) = post.messages
    assert post.recipients == ["<hpc@example.org>"]
    assert r"evil\r\n.\r\nMAIL FROM:<x@y.z>\n\x1b[2J" in message.get_payload()


def test_a_webhook_gets_the_digest_as_json(lab_store: Store, tmp_path: Path) -> None:
    file = tmp_path / "url"
    with run_receiver() as receiver:
        file.write_text(receiver.url("/secret-path"))
        file.chmod(0o600)
        site = Site(lab_store, NotifySettings(webhook_url_file=file))
        site.post("at-risk", channel="webhook")
        receiver.status = 503
        with capture_logs() as said:
            assert site.courier().deliver_due() == 0
        assert "secret-path" not in repr(said)
        receiver.status = 200
        site.clock.at += compute_backoff_s(1)
        assert site.courier().deliver_due() == 1
    first, second = receiver.calls
    assert first.headers["Mirage-Delivery"] == second.headers["Mirage-Delivery"]
    told = json.loads(second.body)
    assert (told["chain_id"], told["cluster"], told["user"]) == (FIRST, "lab", "alice")
    assert told["events"] == [
        {"at": "2027-01-15T08:00:00Z", "event": "at-risk", "says": "so it is"}
    ]


def test_a_dead_mail_server_keeps_nobody_from_the_database(lab_store: Store) -> None:
    with serving(Post(hangs=True)) as post:
        site = Site(lab_store, by_mail(post))
        site.post("at-risk")
        stop = threading.Event()
        thread = threading.Thread(target=site.courier().run, args=(stop,))
        thread.start()
        assert post.called.wait(60)
        site.post("normal")  # a writer's transaction, while the courier waits for the server
        assert thread.is_alive()
        assert site.states() == [NoticeState.PENDING] * 2
        stop.set()
        post.go_on.set()
        thread.join(60)
        assert not thread.is_alive()


def test_a_channel_that_is_configured_no_more_is_given_up(lab_store: Store) -> None:
    site = Site(lab_store, NotifySettings())
    site.post("ended")
    site.courier().deliver_due()
    assert site.states() == [NoticeState.GIVEN_UP]


def test_nobody_is_told_of_anything_unless_it_is_configured() -> None:
    assert notice_channels.build_notice_recorder(NotifySettings()) is None
    assert notice_channels.build_senders(NotifySettings()) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('smtp_host = "mx"', "smtp_host needs mail_from"),
        ('smtp_host = "mx"\nmail_from = "m@example.org"', "whom to mail"),
        ('owner_address = "all@example.org"', "an address with {user} in it"),
        ('owner_address = "{user}@a, b@c"', "an address with {user} in it"),
        ('mail_from = "m@example.org\\nBcc: x@y"', "String should match pattern"),
        (
            'smtp_host = "mx"\nmail_from = "m@example.org"\nadmin_addresses = ["a@b.c"]\n'
            'smtp_security = "none"\nsmtp_password_file = "/x"',
            "a password is not sent unencrypted",
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "mirage.toml"
    file.write_text(f"[notify]\n{text}\n")
    with pytest.raises(ConfigError) as refused:
        load_settings(file)
    assert why in str(refused.value)


def test_what_has_waited_for_more_than_a_week_is_given_up_and_not_sent(lab_store: Store) -> None:
    """It waited while no channel was configured, and an older release kept it."""
    with serving() as post:
        site = Site(lab_store, by_mail(post))
        site.post("ended")
        site.clock.at = NOW + 8 * 86400
        assert site.courier().deliver_due() == 0
    assert post.messages == []
    assert site.states() == [NoticeState.GIVEN_UP]
