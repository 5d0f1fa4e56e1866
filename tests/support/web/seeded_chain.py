"""A chain of 48 h links with its decisions: some hand-overs late, some early, one to come."""

import json
import random
from typing import Any

from mirage.domain.chain import ChainId
from mirage.domain.chain_cause import Risk
from tests.support.api.running import NOW

HOUR, DAY = 3600, 86400
LIMIT = 48 * HOUR
USERS = [("alice", 1001), ("bob", 1002), ("carol", 1003)]
USERS += [(f"user{n:02}", 1100 + n) for n in range(40)]
RISKS = {"ReqNodeNotAvail": Risk.HINDERED, "NoStandby": Risk.NO_STANDBY}


def chain_id(n: int) -> ChainId:
    return ChainId(f"seed{n:08}")


class SeededChain:
    """Rows of the tables, as dictionaries."""

    def __init__(self, cluster_id: int, n: int, luck: random.Random) -> None:
        self._cluster_id, self._number, self._luck = cluster_id, n, luck
        self._id = chain_id(n)
        user, uid = USERS[n % len(USERS)]
        over, paused = n % 20 == 19, n % 33 == 5
        risk = luck.choice(list(RISKS)) if n % 50 == 7 and not over else ""
        done = luck.randint(2, 6)
        self.row = {
            "chain_id": self._id,
            "cluster_id": cluster_id,
            "uid": uid,
            "user": user,
            "state": "finished" if over else "paused" if paused else "active",
            "links_planned": done + (0 if over else 4),
            "overlap_price": 0.5,
            "max_overlap_s": 4 * HOUR,
            "presubmit": "next",
            "mode": "standby",
            "actor": "user" if paused else None,
            "reason": "asked" if paused else None,
            "asked_by": user if paused else None,
            "at_risk": RISKS[risk].value if risk else "",
            "risk_link": done + 2 if risk else None,
            "risk_job": 1 if risk else None,
            "risk_detail": risk,
            "created_at": NOW - 20 * DAY + n,
        }
        self.links: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.forecasts: list[dict[str, Any]] = []
        self._build(done, over=over)

    def _build(self, done: int, *, over: bool) -> None:
        """Backwards from the link that runs: each link is late by its gap, or early."""
        left = self._luck.randint(0, 40) * HOUR + self._luck.randint(600, 3000)
        gaps = [round(self._luck.gauss(0.3, 1.5) * HOUR) for _ in range(done)]
        start = NOW + left - LIMIT
        starts = [start]
        for gap in gaps:
            start -= gap + LIMIT
            starts.insert(0, start)
        if over:
            starts.pop()
        for index, start in enumerate(starts, start=1):
            runs = index > done
            self._link(index, "running" if runs else "ended", start)
            if index > 1:
                self._decided(index, starts[index - 2] + LIMIT, start)
        if not over:
            self._link(done + 2, "pending", None)
            self._decided(done + 2, NOW + left, None)

    def _link(self, index: int, state: str, start: int | None) -> None:
        ended, moved = state == "ended", start is not None and index > 1
        self.links.append(
            {
                "chain_id": self._id,
                "index": index,
                "cluster_id": self._cluster_id,
                "job_id": 1_000_000 + 100 * self._number + index,
                "submit": (start or NOW) - 30 * HOUR,
                "state": state,
                "position": "free" if moved else "held",
                "partition": "gpu",
                "account": "physics",
                "nodes": 4,
                "time_limit_s": LIMIT,
                "eligible": None if start is None else start - 2 * HOUR,
                "freed_at": None if start is None or not moved else start - 2 * HOUR,
                "start": start,
                "end": None if start is None or not ended else start + LIMIT,
                "end_state": "TIMEOUT" if ended else None,
                "seen_at": NOW - 34,
                "reason": "Dependency" if state == "pending" else "",
                "hindered": "",
                "returns": 0,
                "returned_s": 0,
            }
        )

    def _decided(self, index: int, before: int, start: int | None) -> None:
        """Five looks an hour apart: four at which it stays, and the move, where it has started."""
        last = NOW - 3034 if start is None else start - 2 * HOUR
        for step in range(4, -1, -1):
            moves = step == 0 and start is not None
            self.decisions.append(self._decision(index, before, last - step * HOUR, moves=moves))
        newest = self.decisions[-1]
        named = ("cluster_id", "chain_id", "index", "samples", "p10_s", "p50_s", "p90_s")
        self.forecasts.append(
            {name: newest[name] for name in named}
            | {
                "source": "auto",
                "at": newest["last_at"],
                "actual_wait_s": None if start is None else start - last,
            }
        )

    def _decision(self, index: int, before: int, at: int, *, moves: bool) -> dict[str, Any]:
        p50 = 2 * HOUR + self._luck.randint(-1800, 1800)
        left = (before - at) // 60
        than = "no more" if moves else "more"
        return {
            "cluster_id": self._cluster_id,
            "chain_id": self._id,
            "index": index,
            "at": at,
            "last_at": at if moves else at + 3000,
            "repeats": 0 if moves else 50,
            "mode": "act",
            "policy": "auto",
            "action": "free" if moves else "wait",
            "reason": f"{left} min remain, {than} than the lead of {p50 // 60} min",
            "time_left_s": before - at,
            "p10_s": p50 / 3,
            "p50_s": p50,
            "p90_s": p50 * 2.5,
            "samples": 200,
            "effect": "done" if moves else "none",
            "error": "",
            "inputs": json.dumps({"predecessor": index - 1, "standby": index}),
        }
