"""Builds a chain of 48 h links with its decisions: hand-overs late, early, and one to come."""

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

    def __init__(self, cluster_id: int, n: int, rng: random.Random) -> None:
        self._cluster_id, self._number, self._rng = cluster_id, n, rng
        self._id = chain_id(n)
        user, uid = USERS[n % len(USERS)]
        is_over, is_paused = n % 20 == 19, n % 33 == 5
        risk = rng.choice(list(RISKS)) if n % 50 == 7 and not is_over else ""
        ended_links = rng.randint(2, 6)
        self.row = {
            "chain_id": self._id,
            "cluster_id": cluster_id,
            "uid": uid,
            "user": user,
            "state": "finished" if is_over else "paused" if is_paused else "active",
            "links_planned": ended_links + (0 if is_over else 4),
            "overlap_price": 0.5,
            "max_overlap_s": 4 * HOUR,
            "presubmit": "next",
            "mode": "standby",
            "actor": "user" if is_paused else None,
            "reason": "asked" if is_paused else None,
            "asked_by": user if is_paused else None,
            "at_risk": RISKS[risk].value if risk else "",
            "risk_link": ended_links + 2 if risk else None,
            "risk_job": 1 if risk else None,
            "risk_detail": risk,
            "created_at": NOW - 20 * DAY + n,
        }
        self.links: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.forecasts: list[dict[str, Any]] = []
        self._build(ended_links, is_over=is_over)

    def _build(self, ended_links: int, *, is_over: bool) -> None:
        """Build the links, the running one first; each is late or early by a random gap."""
        left_s = self._rng.randint(0, 40) * HOUR + self._rng.randint(600, 3000)
        gaps = [round(self._rng.gauss(0.3, 1.5) * HOUR) for _ in range(ended_links)]
        start = NOW + left_s - LIMIT
        starts = [start]
        for gap in gaps:
            start -= gap + LIMIT
            starts.insert(0, start)
        if is_over:
            starts.pop()
        for index, start in enumerate(starts, start=1):
            is_running = index > ended_links
            self._add_link(index, "running" if is_running else "ended", start)
            if index > 1:
                self._add_decisions(index, starts[index - 2] + LIMIT, start)
        if not is_over:
            self._add_link(ended_links + 2, "pending", None)
            self._add_decisions(ended_links + 2, NOW + left_s, None)

    def _add_link(self, index: int, state: str, start: int | None) -> None:
        has_ended, was_moved = state == "ended", start is not None and index > 1
        self.links.append(
            {
                "chain_id": self._id,
                "index": index,
                "cluster_id": self._cluster_id,
                "job_id": 1_000_000 + 100 * self._number + index,
                "submit": (start or NOW) - 30 * HOUR,
                "state": state,
                "position": "free" if was_moved else "held",
                "partition": "gpu",
                "account": "physics",
                "nodes": 4,
                "time_limit_s": LIMIT,
                "eligible": None if start is None else start - 2 * HOUR,
                "freed_at": None if start is None or not was_moved else start - 2 * HOUR,
                "start": start,
                "end": None if start is None or not has_ended else start + LIMIT,
                "end_state": "TIMEOUT" if has_ended else None,
                "seen_at": NOW - 34,
                "reason": "Dependency" if state == "pending" else "",
                "hindered": "",
                "returns": 0,
                "returned_s": 0,
            }
        )

    def _add_decisions(self, index: int, before: int, start: int | None) -> None:
        """Add five decisions, an hour apart: WAIT four times, then FREE if the link has started."""
        last = NOW - 3034 if start is None else start - 2 * HOUR
        for step in range(4, -1, -1):
            is_move = step == 0 and start is not None
            self.decisions.append(
                self._build_decision(index, before, last - step * HOUR, is_move=is_move)
            )
        newest = self.decisions[-1]
        names = ("cluster_id", "chain_id", "index", "samples", "p10_s", "p50_s", "p90_s")
        self.forecasts.append(
            {name: newest[name] for name in names}
            | {
                "source": "auto",
                "at": newest["last_at"],
                "actual_wait_s": None if start is None else start - last,
            }
        )

    def _build_decision(self, index: int, before: int, at: int, *, is_move: bool) -> dict[str, Any]:
        p50 = 2 * HOUR + self._rng.randint(-1800, 1800)
        left_min = (before - at) // 60
        comparison = "no more" if is_move else "more"
        return {
            "cluster_id": self._cluster_id,
            "chain_id": self._id,
            "index": index,
            "at": at,
            "last_at": at if is_move else at + 3000,
            "repeats": 0 if is_move else 50,
            "mode": "act",
            "policy": "auto",
            "action": "free" if is_move else "wait",
            "reason": f"{left_min} min remain, {comparison} than the lead of {p50 // 60} min",
            "time_left_s": before - at,
            "p10_s": p50 / 3,
            "p50_s": p50,
            "p90_s": p50 * 2.5,
            "samples": 200,
            "effect": "done" if is_move else "none",
            "error": "",
            "inputs": json.dumps({"predecessor": index - 1, "standby": index}),
        }
