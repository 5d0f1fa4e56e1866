"""Every error Mirage raises on purpose.

MirageError
├── InputError            the input is wrong; say what, change it, try again (exit 2, HTTP 422)
│   ├── MalformedText         text of Slurm or of a file that does not read
│   ├── ConfigError           the configuration; lists every fault at once
│   ├── UnknownFormat         a file no reader knows
│   ├── NeverStarts           a job that is too much for its partition; says in what
│   └── UnfitModel            a trained model that is damaged, or was made for other features
├── ClusterError          Slurm said or did something
│   ├── ClusterUnavailable    no answer, or not now: nothing is known, ask again later
│   │   └── UnreadableAnswer      an answer came, and does not read
│   │       └── ForgedAnswer          an answer that somebody else than Slurm has written in
│   └── ClusterRefused        Slurm understood and said no: do not repeat
│       ├── JobChanged            the job is not as the queue showed it: look again
│       └── AccountingOff         the site keeps no accounting: the queue is all there is
├── StoreError            the database
│   ├── StoreUnavailable      cannot be opened or written
│   ├── SchemaMismatch        the schema is older or newer than this program
│   └── NotFound              no such row (HTTP 404)
├── DeliveryError         a mail or a webhook was not taken: try again later
├── ServiceUnavailable    Mirage's own service does not answer its command line (exit 5)
├── IllegalTransition     a state machine was asked for a move it does not have (HTTP 409)
├── NotIdentified         nobody vouches for the caller (HTTP 401)
├── NotAllowed            the caller may not do this (HTTP 403)
└── TooMany               the caller has too much under way (HTTP 429)
"""

from collections.abc import Sequence


class MirageError(Exception):
    """Base of all errors that are answered with one sentence instead of a traceback."""

    exit_code = 1


class InputError(MirageError):
    """An error in the input: the message says what to change."""

    exit_code = 2


class MalformedText(InputError):
    """Text that does not read as what it should be."""


class ConfigError(InputError):
    """The configuration is wrong; `faults` lists every fault found, one sentence each."""

    def __init__(self, source: str, faults: list[str]) -> None:
        self.source = source
        self.faults = faults
        super().__init__("\n".join(format_faults(source, faults)))

    def to_one_line(self) -> str:
        """Return all faults in one line, for a table's cell or a fault of another file."""
        return f"{self.source}: {'; '.join(self.faults)}"


def format_faults(source: str, faults: Sequence[str]) -> list[str]:
    """A line where there is one fault; else their number, and a line each."""
    if len(faults) == 1:
        return [f"{source}: {faults[0]}"]
    return [f"{source}: {len(faults)} faults", *(f"  {fault}" for fault in faults)]


class UnknownFormat(InputError):
    """A file that no reader knows."""


class NeverStarts(InputError):
    """A job that its partition would never start; `field`: what of it is too much."""

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        super().__init__(f"it would never start, as {why}")


class UnfitModel(InputError):
    """A trained model that is damaged, or was made for other features: train it again."""


class ClusterError(MirageError):
    """Slurm said or did something that stops the present act."""

    exit_code = 3


class ClusterUnavailable(ClusterError):
    """A cluster that did not answer, or cannot answer now.

    Nothing is known of the jobs asked about: ask again later.
    """


class UnreadableAnswer(ClusterUnavailable):
    """Slurm answered, and the answer does not read. Asked again, it may answer the same."""


class ForgedAnswer(UnreadableAnswer):
    """Part of the answer is not Slurm's: nothing of it is believed, and the audit says so."""


class ClusterRefused(ClusterError):
    """Slurm understood the request and said no. Repeating it will not help."""


class JobChanged(ClusterRefused):
    """Mirage did not do it: the job was no longer as the last look at the queue showed it. The next
    look tells what there is to do."""


class AccountingOff(ClusterRefused):
    """The site keeps no accounting. No other refusal means that nothing will be known."""


class StoreError(MirageError):
    """The database stops the present act."""

    exit_code = 4


class StoreUnavailable(StoreError):
    """The database cannot be opened or written."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one this program was made for."""


class NotFound(StoreError):
    """There is no such row."""


class DeliveryError(MirageError):
    """A mail or a webhook was not taken. The message holds no secret and is one line."""


class ServiceUnavailable(MirageError):
    """Mirage's own service does not answer. Chains go on without it: Slurm keeps them."""

    exit_code = 5


class IllegalTransition(MirageError):
    """A state machine was asked for a move that it does not have."""


class NotIdentified(MirageError):
    """Nobody vouches for the caller: ask again with a new credential."""

    def __init__(self, message: str, claimant: str = "") -> None:
        """`claimant`: whom the credential names, for the audit; empty: that is not certain."""
        super().__init__(message)
        self.claimant = claimant


class NotAllowed(MirageError):
    """The caller may not do this."""


class TooMany(MirageError):
    """The caller has as much under way as one may: the message says of what."""

    def __init__(self, message: str, after_s: int | None = None) -> None:
        """`after_s`: when to ask again, where that is known; seconds."""
        super().__init__(message)
        self.after_s = after_s
