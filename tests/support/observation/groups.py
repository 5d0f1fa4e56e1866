"""Where a group of numbers stands in an observation."""

from mirage.observation.spec import GROUPS, STARTS


def get_group_slice(group: str) -> slice:
    """Return the places of a group: `observations[:, get_group_slice("plan")]`."""
    i = list(GROUPS).index(group)
    return slice(int(STARTS[i]), int(STARTS[i + 1]))
