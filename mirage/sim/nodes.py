"""Sets of nodes as the bits of an integer."""

from collections.abc import Mapping


def first_bits(bits: int, count: int) -> int:
    """The `count` lowest of them."""
    taken = 0
    for _ in range(count):
        lowest = bits & -bits
        taken |= lowest
        bits ^= lowest
    return taken


def numbers(bits: int) -> list[int]:
    """Ascending positions, the lowest node being 0."""
    found: list[int] = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def choose(free: int, count: int, pins: Mapping[int, int]) -> int:
    """`count` free nodes, those that pinned jobs wait for last."""
    wanted = 0
    for nodes in pins.values():
        wanted |= nodes
    calm = free & ~wanted
    if calm.bit_count() >= count:
        return first_bits(calm, count)
    return calm | first_bits(free & wanted, count - calm.bit_count())
