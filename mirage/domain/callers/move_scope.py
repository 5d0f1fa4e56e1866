"""Describes whose jobs Slurm lets the service's account move."""

from dataclasses import dataclass

_MOST_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveScope:
    """The jobs that the account may move: all, those of accounts it coordinates, or its own."""

    everybody: bool = False
    accounts: frozenset[str] = frozenset()
    """The accounts that the service's account coordinates, with the accounts below them."""
    uid: int | None = None
    """The uid of the service's account; None: not known here."""
    is_known: bool = True
    """Whether Slurm has said so."""

    def can_move(self, uid: int, account: str) -> bool:
        """Return whether a job of that user and account may be moved.

        Slurm's account names are the same in upper and lower case.
        """
        is_own_job = self.uid is not None and uid == self.uid
        return (
            self.everybody or is_own_job or account.casefold() in map(str.casefold, self.accounts)
        )

    def describe_scope(self) -> str:
        if not self.is_known:
            return "whatever jobs Slurm lets it move, which is not known in advance"
        if self.everybody:
            return "everybody's jobs"
        if not self.accounts:
            return "only its own jobs: it is neither Operator nor coordinator of an account"
        names = sorted(self.accounts)
        more = f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES)
        return f"jobs of accounts that it coordinates ({', '.join(names[:_MOST_NAMES])}{more})"


EVERYBODY = MoveScope(everybody=True)
UNKNOWN = MoveScope(everybody=True, is_known=False)
"""The scope if permissions are not known: each move is tried, and Slurm may refuse it."""
