"""Numbers for names, since kernels know only numbers: users, accounts, arrays, shapes of jobs."""

from collections.abc import Hashable
from typing import Self

from mirage.domain.arrays import Ints
from mirage.simulator.types import Params, SimJob


class NameTable:
    """Numbers given in the order in which names are met. Simulators share one until they add."""

    def __init__(self, params: Params) -> None:
        self.users: dict[str, int] = {}
        self.accounts: dict[str, int] = {name: i for i, (name, _) in enumerate(params.shares)}
        self.associations: dict[tuple[str, str], int] = {}
        """(account, user)."""
        self.use_rows: dict[tuple[str, int], int] = {}
        """(user, QOS number)."""
        self.arrays: dict[int, int] = {}
        self.kinds: dict[Hashable, int] = {}
        self.shapes: dict[Hashable, int] = {}
        self.forms: dict[Hashable, int] = {}
        self.records: dict[SimJob, Ints] = {}
        """The records of jobs without anything of their own (`SimulatorMemory.build_records`)."""

    def assign_association(self, account: str, user: str) -> int:
        """The number of the pair, its account known too."""
        self.accounts.setdefault(account, len(self.accounts))
        return self.associations.setdefault((account, user), len(self.associations))

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__ = {name: dict(table) for name, table in self.__dict__.items()}
        return twin
