"""Reads the stream of events as a browser does."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support import patient

PATH = "/api/v1/events"


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    id: int | None
    data: Mapping[str, Any]


@dataclass
class Stream:
    answer: httpx.Response
    comments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lines = self.answer.iter_lines()

    def __iter__(self) -> Iterator[Event]:
        """Yield the events until the server ends the stream."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                number = int(fields["id"]) if "id" in fields else None
                yield Event(fields["event"], number, json.loads(fields["data"]))
                fields = {}

    def next(self, name: str | None = None) -> Event:
        """Return the next event, or the next event of that name."""
        return next(event for event in self if name in {None, event.name})

    def read_comments(self, count: int) -> None:
        """Read on until so many comments have come, or the server ends."""
        while len(self.comments) < count:
            line = next(self._lines)
            if line.startswith(":"):
                self.comments.append(line)


@contextmanager
def listening(
    url: str, *, headers: Mapping[str, str] | None = None, **query: Any
) -> Iterator[Stream]:
    timeout = httpx.Timeout(patient.PATIENCE_S)
    with (
        httpx.Client(trust_env=False, timeout=timeout, verify=patient.NO_ISSUER) as http,
        http.stream("GET", url + PATH, params=query, headers=headers) as answer,
    ):
        yield Stream(answer)


def read(url: str, *, headers: Mapping[str, str] | None = None, **query: Any) -> list[Event]:
    """Return the events that exist now."""
    with listening(url, headers=headers, for_s=0, **query) as stream:
        assert stream.answer.status_code == 200, stream.answer.read()
        return list(stream)
