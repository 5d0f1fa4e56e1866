"""From Slurm's words to values: what cannot be read is no answer."""

from collections.abc import Callable
from typing import TypeVar

from mirage.cluster.alarms import Alarms
from mirage.errors import ClusterUnavailable, ForgedAnswer, MalformedText

T = TypeVar("T")


class Reader:
    """Calls parsers. Nothing may be concluded from an answer that does not read."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms

    def __call__(self, command: str, parse: Callable[[], T]) -> T:
        """What `parse` makes of the answer of `command`.

        Raises ClusterUnavailable for text that does not read, and ForgedAnswer, after an alarm, for
        what Slurm did not write.
        """
        try:
            return parse()
        except MalformedText as error:
            raise ClusterUnavailable(f"{command}'s answer does not read: {error}") from error
        except ForgedAnswer as error:
            self._alarms.add(f"{command}: {error}")
            raise
