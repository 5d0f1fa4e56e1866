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
_throttled_log = ThrottledLog(20)

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

    def fetch_answers(self, selection: Sequence[str]) -> SacctAnswers:
        """Fetch both answers about the records that `which` chooses.

        `which` are options of `mirage.slurm.commands.sacct`.
        """
        fields = self._get_fields()
        answer = self._query(sacct.build_argv(fields.facts, selection))
        unread = Unread()
        facts = self._read("sacct", lambda: sacct.parse_facts(answer, fields.facts, unread))
        texts = self._fetch_texts(fields.texts, selection, facts) if facts else JobTexts()
        return SacctAnswers(facts, texts, tuple(unread.rows))

    def settle_records(self, answers: SacctAnswers) -> Records:
        """Build the records. Asks sacct again about contested texts, in one call for each owner.

        Time `fetch_answers` alone to measure how fast slurmdbd answers: how often this method asks
        again depends on what users write.
        """
        texts = self._settle_texts(self._get_fields().texts, answers)
        unread = Unread(list(answers.unread))
        jobs = self._read.read_rows(
            "sacct",
            lambda rejects: sacct.build_jobs(answers.facts, texts, rejects),
            unread=unread,
        )
        return Records(jobs, unread.job_ids)

    def _get_fields(self) -> sacct.QueryFields:
        if self._fields is None:
            helpformat = self._query(sacct.build_helpformat_argv())
            self._fields = self._read("sacct", lambda: sacct.choose_fields(helpformat))
        return self._fields

    def _settle_texts(self, names: Sequence[str], answers: SacctAnswers) -> dict[RecordKey, Row]:
        job_texts = answers.texts
        settled, contested = job_texts.select_settled(), job_texts.group_contested()
        forged = job_texts.misattributed_rows
        for uid in _sample_owners(contested):
            keys = contested[uid]
            owner_texts: dict[RecordKey, Row] = {}
            for i in range(0, len(keys), _RECORDS_AT_ONCE):
                facts = {key: answers.facts[key] for key in keys[i : i + _RECORDS_AT_ONCE]}
                owner_texts |= self._fetch_owner_texts(names, uid, facts)
            settled |= owner_texts
            forged += sum(
                is_forged(row, owner_texts.get(key, {}))
                for key in keys
                for row in job_texts.rows_by_record[key]
            )
        if forged:
            owners = sorted(contested)
            owner_names = ", ".join(owners[:_OWNERS_AT_ONCE]) or "that do not exist"
            more = f" and {len(owners) - _OWNERS_AT_ONCE} more" * (len(owners) > _OWNERS_AT_ONCE)
            writers = (
                ", ".join(sorted(job_texts.collect_separator_writers())[:_OWNERS_AT_ONCE])
                or "unknown"
            )
            self._alarms.add_alarm(
                f"sacct's answer held {forged} rows that users wrote into their own jobs' texts "
                f"(separators stand in texts of uids {writers}), about jobs of uids "
                f"{owner_names}{more}: Mirage ignores all of them"
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
        options = [
            *sacct.build_id_options(key[0] for key in facts),
            *sacct.build_user_options(int(uid)),
        ]
        try:
            return self._fetch_texts(names, options, facts).select_settled()
        except ClusterError as error:
            _throttled_log.log_event(
                _log.warning, "texts of a user's records are left out", uid=uid, error=str(error)
            )
            return {}

    def _fetch_texts(
        self, names: Sequence[str], selection: Sequence[str], facts: Mapping[RecordKey, Row]
    ) -> JobTexts:
        separator = make_separator()
        answer = self._query(sacct.build_argv(names, selection, separator))
        return self._read("sacct", lambda: parse_texts(answer, names, separator, facts.keys()))


def _sample_owners(uids: Collection[str]) -> list[str]:
    """Choose owners at random, so that nobody is left out for ever."""
    return secrets.SystemRandom().sample(sorted(uids), min(len(uids), _OWNERS_AT_ONCE))


def make_separator() -> str:
    """Make a separator that nobody can guess: 72 random bits."""
    return f"{SEPARATOR}{secrets.token_urlsafe(9)}"
