"""Reads accounting through sacct: records from one answer, users' texts from another."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from mirage.domain.snapshot import Records
from mirage.errors import ClusterError
from mirage.logs import ThrottledLog
from mirage.slurm.clients.answer_reader import AnswerReader
from mirage.slurm.clients.forgery_alarms import ForgeryAlarms
from mirage.slurm.commands import sacct
from mirage.slurm.commands.sacct import RecordKey
from mirage.slurm.commands.sacct_texts import JobTexts, is_forged, parse_texts
from mirage.slurm.text.delimited_rows import SEPARATOR, Row
from mirage.slurm.text.unread_rows import Unread, UnreadRow

_log = structlog.get_logger(__name__)
_seldom = ThrottledLog(20)

_OWNERS_AT_ONCE = 8
"""The most owners whose contested texts are queried again, one call each. Further owners stay
without texts until the next round, so that a forger cannot make slurmdbd answer hundreds of
calls."""


_RECORDS_AT_ONCE = 2000
"""The most records that one call names, as an argument has a greatest length (MAX_ARG_STRLEN, 128
KiB)."""


@dataclass(frozen=True, slots=True)
class SacctAnswers:
    """sacct's answers about some records."""

    facts: Mapping[RecordKey, Row]
    texts: JobTexts
    unread: tuple[UnreadRow, ...] = ()
    """Rows of the first answer that could not be read."""


class SacctClient:
    """Asks sacct about jobs, and reads its answers safely whatever users write into their jobs."""

    def __init__(
        self, query: Callable[[Sequence[str]], str], read: AnswerReader, alarms: ForgeryAlarms
    ) -> None:
        """`query` returns the answer of a command, and raises ClusterError."""
        self._query, self._read, self._alarms = query, read, alarms
        self._fields: sacct.QueryFields | None = None

    def fetch_answers(self, which: Sequence[str]) -> SacctAnswers:
        """Fetch both answers about the records that `which` chooses.

        `which` are options of `mirage.slurm.commands.sacct`.
        """
        fields = self._get_fields()
        answer = self._query(sacct.build_argv(fields.facts, which))
        unread = Unread()
        facts = self._read("sacct", lambda: sacct.parse_facts(answer, fields.facts, unread))
        told = self._fetch_texts(fields.texts, which, facts) if facts else JobTexts()
        return SacctAnswers(facts, told, tuple(unread.rows))

    def settle_records(self, answers: SacctAnswers) -> Records:
        """The records. Asks again where users have written into the answer, which says nothing of
        slurmdbd: whoever minds how fast that answers counts `fetch_answers` alone."""
        texts = self._settle_texts(self._get_fields().texts, answers)
        unread = Unread(list(answers.unread))
        found = self._read.read_rows(
            "sacct",
            lambda left_out: sacct.build_jobs(answers.facts, texts, left_out),
            unread=unread,
        )
        return Records(found, unread.job_ids)

    def _get_fields(self) -> sacct.QueryFields:
        if self._fields is None:
            known = self._query(sacct.build_helpformat_argv())
            self._fields = self._read("sacct", lambda: sacct.choose_fields(known))
        return self._fields

    def _settle_texts(self, names: Sequence[str], answers: SacctAnswers) -> dict[RecordKey, Row]:
        told = answers.texts
        settled, contested = told.select_settled(), told.group_contested()
        forged = told.odd
        for uid in _sample_owners(contested):
            keys = contested[uid]
            alone: dict[RecordKey, Row] = {}
            for i in range(0, len(keys), _RECORDS_AT_ONCE):
                some = {named: answers.facts[named] for named in keys[i : i + _RECORDS_AT_ONCE]}
                alone |= self._fetch_owner_texts(names, uid, some)
            settled |= alone
            forged += sum(
                is_forged(row, alone.get(named, {})) for named in keys for row in told.found[named]
            )
        if forged:
            owners = sorted(contested)
            whose = ", ".join(owners[:_OWNERS_AT_ONCE]) or "that do not exist"
            more = f" and {len(owners) - _OWNERS_AT_ONCE} more" * (len(owners) > _OWNERS_AT_ONCE)
            writers = (
                ", ".join(sorted(told.collect_separator_writers())[:_OWNERS_AT_ONCE]) or "unknown"
            )
            self._alarms.add_alarm(
                f"sacct's answer held {forged} rows that users wrote into their own jobs' texts "
                f"(separators stand in texts of uids {writers}), about jobs of uids {whose}{more}: "
                "Mirage ignores all of them"
            )
        return settled

    def _fetch_owner_texts(
        self, names: Sequence[str], uid: str, facts: Mapping[RecordKey, Row]
    ) -> Mapping[RecordKey, Row]:
        """Fetch the texts of one owner's records; empty if Slurm does not give them.

        sacct has no uid for some records, and refuses a uid without an account.
        """
        if not uid.isdecimal():
            return {}
        own = [
            *sacct.build_id_options(named[0] for named in facts),
            *sacct.build_user_options(int(uid)),
        ]
        try:
            return self._fetch_texts(names, own, facts).select_settled()
        except ClusterError as error:
            _seldom.log_event(
                _log.warning, "texts of a user's records are left out", uid=uid, error=str(error)
            )
            return {}

    def _fetch_texts(
        self, names: Sequence[str], which: Sequence[str], facts: Mapping[RecordKey, Row]
    ) -> JobTexts:
        separator = make_separator()
        answer = self._query(sacct.build_argv(names, which, separator))
        return self._read("sacct", lambda: parse_texts(answer, names, separator, facts.keys()))


def _sample_owners(uids: Collection[str]) -> list[str]:
    """Choose owners at random, so that nobody is left out for ever."""
    return secrets.SystemRandom().sample(sorted(uids), min(len(uids), _OWNERS_AT_ONCE))


def make_separator() -> str:
    """Make a separator that nobody can guess: 72 random bits."""
    return f"{SEPARATOR}{secrets.token_urlsafe(9)}"
