"""Numbers for users, accounts, arrays and shapes of jobs, since kernels work only with numbers."""

from collections.abc import Hashable
from typing import Self

from mirage.domain.arrays import Ints
from mirage.simulator.types import Params, SimJob


class NameTable:
    """Assigns numbers to names, in the order in which the names occur. Simulators share one table;
    a simulator that adds a name copies the table first."""

    def __init__(self, params: Params) -> None:
        self.users: dict[str, int] = {}
        self.accounts: dict[str, int] = {name: i for i, (name, _) in enumerate(params.shares)}
        self.associations: dict[tuple[str, str], int] = {}
        """Numbers by (account, user)."""
        self.use_rows: dict[tuple[str, int], int] = {}
        """Rows of layout.USE by (user, QOS number)."""
        self.arrays: dict[int, int] = {}
        self.kinds: dict[Hashable, int] = {}
        self.shapes: dict[Hashable, int] = {}
        self.forms: dict[Hashable, int] = {}
        self.records: dict[SimJob, Ints] = {}
        """Records of jobs without id, dependencies and node list
        (`SimulatorMemory.build_records`)."""

    def assign_association(self, account: str, user: str) -> int:
        """Return the number of the pair; a new pair and a new account get the next numbers."""
        self.accounts.setdefault(account, len(self.accounts))
        return self.associations.setdefault((account, user), len(self.associations))

    def copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__ = {name: dict(table) for name, table in self.__dict__.items()}
        return copy
