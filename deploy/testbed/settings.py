"""The settings of a testbed, and its places on the host."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

CLUSTER = "testbed"
CONF = Path("/etc/slurm")
STATE = Path("/var/lib/mirage-testbed")
RUN = Path("/run/mirage-testbed")
LOG = Path("/var/log/mirage-testbed")
LOCK = Path("/run/mirage-testbed.lock")
TEMPLATES = Path(__file__).parent / "templates"
MARKER = "Written by Mirage's deploy/testbed; a file without this line is never overwritten."

# user -> account. "mirage" is the service's own: Operator in Slurm, nobody in Unix.
USERS = {"alice": "research", "bob": "research", "carol": "students", "mirage": "services"}
ACCOUNT_SHARES = {"research": 10, "students": 5, "services": 1}
SERVICE_USER = "mirage"
GPUS_PER_NODE = 8

_SETTINGS_FILE = "settings.json"


class TestbedError(Exception):
    """The testbed could not be brought to the state asked for; the message says what failed."""

    __test__ = False  # the name starts with "Test", which pytest would collect


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    speed: int = 1
    priority: Literal["age", "fairshare"] = "age"
    accrue_always: bool = False
    store_flags: bool = True
    nodes: int = 8
    auth: Literal["munge", "slurm"] = "munge"
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.speed <= 1000:
            raise TestbedError(f"speed {self.speed}: must be 1 to 1000")
        if not 1 <= self.nodes <= 32:
            raise TestbedError(f"nodes {self.nodes}: must be 1 to 32")
        for line in self.extra:
            if "=" not in line:
                raise TestbedError(f"extra {line!r}: must be Key=Value")

    def node_names(self) -> list[str]:
        return [f"gpu{index:02d}" for index in range(1, self.nodes + 1)]

    def fields(self) -> dict[str, object]:
        return asdict(self)

    def save(self) -> None:
        (RUN / _SETTINGS_FILE).write_text(json.dumps(self.fields()))

    @staticmethod
    def saved() -> Settings | None:
        """Return the settings of the testbed that was last started and not taken down."""
        try:
            fields = json.loads((RUN / _SETTINGS_FILE).read_text())
        except FileNotFoundError:
            return None
        return Settings(**{**fields, "extra": tuple(fields["extra"])})

    @staticmethod
    def forget() -> None:
        (RUN / _SETTINGS_FILE).unlink(missing_ok=True)
