"""Who asks the service for something."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """A user of the cluster, vouched for."""

    uid: int
    user: str
