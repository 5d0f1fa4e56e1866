"""Accounting through sacct: records from one answer, what users wrote from another."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence

from mirage.cluster.alarms import Alarms
from mirage.cluster.reading import Reader
from mirage.domain.job import Job
from mirage.slurm import sacct
from mirage.slurm.rows import SEPARATOR, Row
from mirage.slurm.sacct import Key
from mirage.slurm.sacct_texts import Texts, is_forged, parse_texts

_OWNERS_AT_ONCE = 8
"""Owners whose contested texts are asked for anew, a call each. Those of more stay without texts
until the next look: whoever forges rows shall not make slurmdbd answer hundreds of questions."""


class Accounting:
    """What sacct knows of jobs, whatever their users write."""

    def __init__(self, query: Callable[[Sequence[str]], str], read: Reader, alarms: Alarms) -> None:
        """`query`: the answer of a command; raises ClusterError."""
        self._query, self._read, self._alarms = query, read, alarms
        self._fields: sacct.Fields | None = None

    def records(self, which: Sequence[str]) -> list[Job]:
        """The records that `which`, options of `mirage.slurm.sacct`, chooses."""
        fields = self._known_fields()
        answer = self._query(sacct.argv(fields.facts, which))
        facts = self._read("sacct", lambda: sacct.parse_facts(answer, fields.facts))
        texts = self._texts(fields.texts, which, facts) if facts else {}
        return self._read("sacct", lambda: sacct.records(facts, texts))

    def _known_fields(self) -> sacct.Fields:
        if self._fields is None:
            known = self._query(sacct.helpformat_argv())
            self._fields = self._read("sacct", lambda: sacct.fields(known))
        return self._fields

    def _texts(
        self, names: Sequence[str], which: Sequence[str], facts: Mapping[Key, Row]
    ) -> dict[Key, Row]:
        told = self._told(names, which, facts)
        settled, contested = told.settled(), told.contested()
        forged = told.odd
        for uid in _some(contested):
            keys = contested[uid]
            own = [*sacct.by_id(named[0] for named in keys), *sacct.of_user(int(uid))]
            alone = self._told(names, own, {named: facts[named] for named in keys}).settled()
            settled |= alone
            forged += sum(
                is_forged(row, alone.get(named, {})) for named in keys for row in told.found[named]
            )
        if forged:
            self._alarms.add(
                f"sacct's answer held {forged} rows that users wrote into their own jobs' texts, "
                f"about jobs of uids {', '.join(sorted(contested)) or 'that do not exist'}: "
                "none of them is believed"
            )
        return settled

    def _told(self, names: Sequence[str], which: Sequence[str], facts: Mapping[Key, Row]) -> Texts:
        separator = secret_separator()
        answer = self._query(sacct.argv(names, which, separator))
        return self._read("sacct", lambda: parse_texts(answer, names, separator, facts.keys()))


def _some(uids: Collection[str]) -> list[str]:
    """Any of them: who is left out now is not left out for ever."""
    return secrets.SystemRandom().sample(sorted(uids), min(len(uids), _OWNERS_AT_ONCE))


def secret_separator() -> str:
    """One that nobody knew before, and nobody guesses: 72 random bits."""
    return f"{SEPARATOR}{secrets.token_urlsafe(9)}"
