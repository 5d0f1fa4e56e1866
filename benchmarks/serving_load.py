"""Requests at a constant rate, each timed from the instant it was due.

A client that waits for an answer before it asks again would leave out the very requests that a
slow answer holds up (coordinated omission); here they are asked, and timed, all the same.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

CONNECTIONS = 64
PATIENCE_S = 30.0


@dataclass
class Answers:
    """The answers of one address: seconds from the due instant to the last byte, and failures."""

    durations_s: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    size: int = 0


async def ask_steadily(
    url: str, paths: Sequence[str], *, rate: float, seconds: float, headers: Mapping[str, str]
) -> dict[str, Answers]:
    """Ask for `paths` in turn, `rate` requests a second in all."""
    answers: dict[str, Answers] = {path: Answers() for path in paths}
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(
        base_url=url, limits=limits, timeout=PATIENCE_S, headers=dict(headers), trust_env=False
    ) as http:

        async def ask(path: str, due: float) -> None:
            try:
                answer = await http.get(path)
                status, size = answer.status_code, len(answer.content)
            except httpx.HTTPError:
                status, size = 0, 0
            answers_of_path = answers[path]
            answers_of_path.durations_s.append(time.monotonic() - due)
            answers_of_path.statuses[status] += 1
            answers_of_path.size = max(answers_of_path.size, size)

        begin, tasks = time.monotonic(), []
        for number in range(round(rate * seconds)):
            due = begin + number / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(ask(paths[number % len(paths)], due)))
        await asyncio.gather(*tasks)
    return answers
