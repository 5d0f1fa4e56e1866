"""Keeps alarms about forged Slurm answers until they are written into the audit."""

from collections import deque

_LONGEST = 100
"""The most sentences kept, the newest ones."""


class ForgeryAlarms:
    """Alarms in sentences. Safe to use from several threads."""

    def __init__(self) -> None:
        self._sentences: deque[str] = deque(maxlen=_LONGEST)

    def add_alarm(self, sentence: str) -> None:
        self._sentences.append(sentence)

    def take_alarms(self) -> list[str]:
        """Return the sentences since the last call, the oldest first."""
        sentences = []
        while self._sentences:
            sentences.append(self._sentences.popleft())
        return sentences
