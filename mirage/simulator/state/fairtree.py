"""Slurm's fair tree over accounts and users (docs/reference/simulator.md 3, "Fair share").

Slurm lets all usage decay at each tick. Here new usage gains weight instead. Comparisons give the
same results, and users without running jobs cost nothing.
"""

from typing import Final

import numpy as np

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    ACCOUNT_LEVEL,
    ACCOUNT_RAW,
    ACCOUNT_SHARES,
    ACCOUNT_USAGE,
    ASSOCIATION,
    ASSOCIATIONS,
    CHARGE,
    FAIR_ACCOUNT,
    FAIR_LEVEL,
    FAIR_ORDER,
    FAIR_RANK,
    FAIR_RAW,
    FAIR_USAGE,
    FAIR_VALUE,
    LAST_TICK,
    LIVE,
    ORIGIN,
    RECORD,
    RUN_SLOT,
    RUNNING,
    SITE_CALC_PERIOD,
    SITE_FAIR_WEIGHT,
    SITE_HALF_LIFE,
    START,
    TICK_AT,
    section,
)

MOST_HALF_LIVES: Final = 256
"""The number of half-lives for which weights grow before all usage is scaled down. A float
overflows at 2 ** 1024."""


@kernel
def charge_usage(state: Ints, site: Ints, slot: int, until: int) -> None:
    """Charge what a running job has used since the last tick or its start, in CPU seconds."""
    if not site[SITE_FAIR_WEIGHT]:
        return
    live = section(state, LIVE)
    record = slot * RECORD
    seconds = until - max(live[record + START], state[LAST_TICK])
    section(state, FAIR_RAW)[live[record + ASSOCIATION]] += live[record + CHARGE] * seconds


@kernel
def apply_tick(state: Ints, site: Ints, instant: int) -> bool:
    """Compute usage and fair share as of a tick. Returns whether any value has changed."""
    slots = section(state, RUN_SLOT)
    for i in range(state[RUNNING]):
        charge_usage(state, site, slots[i], instant)
    state[LAST_TICK] = instant
    state[TICK_AT] = instant + site[SITE_CALC_PERIOD]
    if instant - state[ORIGIN] > MOST_HALF_LIVES * site[SITE_HALF_LIFE]:
        decay_usage(state, site, instant)
    add_usage(state, 2.0 ** ((instant - state[ORIGIN]) / site[SITE_HALF_LIFE]))
    return rank_associations(state, site)


@kernel
def decay_usage(state: Ints, site: Ints, instant: int) -> None:
    """Scale all usage to its decayed value at an instant, from which weights grow anew."""
    factor = 2.0 ** ((state[ORIGIN] - instant) / site[SITE_HALF_LIFE])
    usage = section(state, FAIR_USAGE).view(np.float64)
    account_usage = section(state, ACCOUNT_USAGE).view(np.float64)
    for a in range(usage.size):
        usage[a] *= factor
    for c in range(account_usage.size):
        account_usage[c] *= factor
    state[ORIGIN] = instant


@kernel
def rank_associations(state: Ints, site: Ints) -> bool:
    """Compute each association's fair share by its present usage. Returns whether any has
    changed."""
    compute_levels(state)
    if is_order_kept(state):
        return False
    sort_associations(state)
    return set_fair_values(state, site)


@kernel
def add_usage(state: Ints, growth: float) -> None:
    """Add the charged seconds to the usage, weighted by `growth`, which grows with time."""
    raw, accounts_raw = section(state, FAIR_RAW), section(state, ACCOUNT_RAW)
    accounts = section(state, FAIR_ACCOUNT)
    usage = section(state, FAIR_USAGE).view(np.float64)
    account_usage = section(state, ACCOUNT_USAGE).view(np.float64)
    for a in range(state[ASSOCIATIONS]):
        if raw[a]:
            usage[a] += raw[a] * growth
            accounts_raw[accounts[a]] += raw[a]
            raw[a] = 0
    for c in range(accounts_raw.size):
        if accounts_raw[c]:
            account_usage[c] += accounts_raw[c] * growth
            accounts_raw[c] = 0


@kernel
def compute_levels(state: Ints) -> None:
    """Compute the levels (shares over usage) of all accounts and associations. An association has
    one share."""
    levels = section(state, FAIR_LEVEL).view(np.float64)
    usage = section(state, FAIR_USAGE).view(np.float64)
    for a in range(levels.size):
        levels[a] = 1.0 / usage[a] if usage[a] > 0.0 else np.inf
    levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    usage, shares = section(state, ACCOUNT_USAGE).view(np.float64), section(state, ACCOUNT_SHARES)
    for c in range(levels.size):
        levels[c] = shares[c] / usage[c] if usage[c] > 0.0 else np.inf


@inline_kernel
def is_ahead(
    account_level: float, level: float, other_account_level: float, other_level: float
) -> bool:
    """Return whether an association with the first two levels comes before one with the others."""
    return account_level > other_account_level or (
        account_level == other_account_level and level > other_level
    )


@kernel
def is_order_kept(state: Ints) -> bool:
    """Return whether every association has the rank that it had."""
    order, accounts = section(state, FAIR_ORDER), section(state, FAIR_ACCOUNT)
    ranks, levels = section(state, FAIR_RANK), section(state, FAIR_LEVEL).view(np.float64)
    account_levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    rank, last_account_level, last_level = 0, np.inf, np.inf
    for i in range(state[ASSOCIATIONS]):
        a = order[i]
        account_level, level = account_levels[accounts[a]], levels[a]
        if is_ahead(account_level, level, last_account_level, last_level):
            return False
        if is_ahead(last_account_level, last_level, account_level, level):
            rank = i
        if ranks[a] != rank:
            return False
        last_account_level, last_level = account_level, level
    return True


@kernel
def sort_associations(state: Ints) -> None:
    """Sort the associations by insertion, from their last order: between two ticks little moves."""
    order, accounts = section(state, FAIR_ORDER), section(state, FAIR_ACCOUNT)
    levels = section(state, FAIR_LEVEL).view(np.float64)
    account_levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    for i in range(1, state[ASSOCIATIONS]):
        a, j = order[i], i
        while j > 0 and is_ahead(
            account_levels[accounts[a]],
            levels[a],
            account_levels[accounts[order[j - 1]]],
            levels[order[j - 1]],
        ):
            order[j] = order[j - 1]
            j -= 1
        order[j] = a


@kernel
def set_fair_values(state: Ints, site: Ints) -> bool:
    """Give each association its part of the weight by its rank. Returns whether any has changed."""
    order, values = section(state, FAIR_ORDER), section(state, FAIR_VALUE)
    accounts, ranks = section(state, FAIR_ACCOUNT), section(state, FAIR_RANK)
    levels = section(state, FAIR_LEVEL).view(np.float64)
    account_levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    n, weight = state[ASSOCIATIONS], site[SITE_FAIR_WEIGHT]
    has_changed, rank, value = False, 0, weight
    for i in range(n):
        a, b = order[i], order[max(i - 1, 0)]
        if is_ahead(account_levels[accounts[b]], levels[b], account_levels[accounts[a]], levels[a]):
            rank = i
            # This is weight * (n - rank) // n, written so that large weights stay within 64 bits.
            value = weight // n * (n - rank) + weight % n * (n - rank) // n
        has_changed = has_changed or value != values[a]
        values[a], ranks[a] = value, rank
    return has_changed
