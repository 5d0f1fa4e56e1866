"""Describes an episode table: the data that the table carries about itself."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

STEP_S = 600
"""Seconds between decision instants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """The origin of a table. It suffices to make the table again, and to refuse inputs that do
    not fit."""

    trace: str
    """The file's name."""
    trace_sha256: str
    cluster: dict[str, Any]
    """Every field of simulator.types.Params."""
    nodes: int
    time_limit_s: int
    """Of both jobs."""
    every_s: int
    since: int
    until: int
    """Start points lie in [since, until), epoch seconds."""
    step_s: int = STEP_S
    partition: str = ""
    qos: str = ""
    """Of both jobs. Empty, as in older files: the cluster's first."""
    user: str = ""
    """The user of both jobs. Empty: a user of their own, without any usage."""
    account: str = ""
    features: tuple[str, ...]
    features_fingerprint: str
    versions: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    """Start points without an episode: one of the pair could not run to its limit or start."""
    beyond_trace: int = 0
    """Instants whose successor started after the last submission of the trace."""
    source: str = ""
    """The path of the trace, which later commands read again. Empty in older files."""
    timezone: str = ""
    """The zone of the trace's local times, as it was given. Empty: the reader's default."""
    load: float = 1.0
    """The number of jobs in the replay for each job of the trace (`load_scaling.scale_load`)."""

    @property
    def has_logged_load(self) -> bool:
        """Return whether the trace was replayed at its own load; only such tables judge models."""
        return self.load == 1.0

    @property
    def pair(self) -> str:
        """Hash (sha256) of everything that a hand-over depends on, except its start point."""
        values = (
            self.trace_sha256,
            # Tables older than this setting lack it, and cancelled jobs ran in their replays.
            {k: v for k, v in self.cluster.items() if (k, v) != ("cancelled_jobs_run", True)},
            self.nodes,
            self.time_limit_s,
            self.partition or self._get_first_name("partitions"),
            self.qos or self._get_first_name("qos"),
            self.user,
            self.account,
            # The load and the zone are hashed only if they differ from the default, so that the
            # hashes of tables older than these settings stay valid.
            *([] if self.has_logged_load else [self.load]),
            *([self.timezone] if self.timezone else []),
        )
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def _get_first_name(self, kind: str) -> str:
        """Return the name of the cluster's first partition or QOS, which is its default."""
        return next((str(entry["name"]) for entry in self.cluster.get(kind, ())), "")
