"""Slurm's fair tree over accounts and users (docs/reference/simulator.md 3, "Fair share").

Slurm lets usage decay. Here new usage gains weight instead. Comparisons give the same results, and
users without running jobs cost nothing.
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
"""So long usage grows in weight before it is brought down again."""


@kernel
def charge_usage(state: Ints, site: Ints, slot: int, until: int) -> None:
    """Note what a running job used since the last tick, or since its start."""
    if not site[SITE_FAIR_WEIGHT]:
        return
    live = section(state, LIVE)
    at = slot * RECORD
    seconds = until - max(live[at + START], state[LAST_TICK])
    section(state, FAIR_RAW)[live[at + ASSOCIATION]] += live[at + CHARGE] * seconds


@kernel
def apply_tick(state: Ints, site: Ints, at: int) -> bool:
    """Usage and fair share as of the tick at `at`; whether any value changed."""
    slots = section(state, RUN_SLOT)
    for i in range(state[RUNNING]):
        charge_usage(state, site, slots[i], at)
    state[LAST_TICK] = at
    state[TICK_AT] = at + site[SITE_CALC_PERIOD]
    if at - state[ORIGIN] > MOST_HALF_LIVES * site[SITE_HALF_LIFE]:
        decay_usage(state, site, at)
    add_usage(state, 2.0 ** ((at - state[ORIGIN]) / site[SITE_HALF_LIFE]))
    return rank_associations(state, site)


@kernel
def decay_usage(state: Ints, site: Ints, at: int) -> None:
    """All usage as it is worth at `at`, from where it grows anew: floats end at 2 ** 1024."""
    worth = 2.0 ** ((state[ORIGIN] - at) / site[SITE_HALF_LIFE])
    usage = section(state, FAIR_USAGE).view(np.float64)
    account_usage = section(state, ACCOUNT_USAGE).view(np.float64)
    for a in range(usage.size):
        usage[a] *= worth
    for c in range(account_usage.size):
        account_usage[c] *= worth
    state[ORIGIN] = at


@kernel
def rank_associations(state: Ints, site: Ints) -> bool:
    """Each association's fair share as its usage is now; whether any changed."""
    compute_levels(state)
    if is_order_kept(state):
        return False
    sort_associations(state)
    return set_fair_values(state, site)


@kernel
def add_usage(state: Ints, growth: float) -> None:
    """Move what was charged into usage, weighted by the time it was used."""
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
    """The levels of all accounts and associations; an association's shares are 1."""
    levels = section(state, FAIR_LEVEL).view(np.float64)
    usage = section(state, FAIR_USAGE).view(np.float64)
    for a in range(levels.size):
        levels[a] = 1.0 / usage[a] if usage[a] > 0.0 else np.inf
    levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    usage, shares = section(state, ACCOUNT_USAGE).view(np.float64), section(state, ACCOUNT_SHARES)
    for c in range(levels.size):
        levels[c] = shares[c] / usage[c] if usage[c] > 0.0 else np.inf


@inline_kernel
def is_ahead(account_level: float, level: float, other_account: float, other: float) -> bool:
    """Return whether the fair share at the first two levels is ahead of the one at the others."""
    return account_level > other_account or (account_level == other_account and level > other)


@kernel
def is_order_kept(state: Ints) -> bool:
    """Return whether every association has the rank that it had."""
    order, accounts = section(state, FAIR_ORDER), section(state, FAIR_ACCOUNT)
    ranks, levels = section(state, FAIR_RANK), section(state, FAIR_LEVEL).view(np.float64)
    account_levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    rank, account_before, before = 0, np.inf, np.inf
    for i in range(state[ASSOCIATIONS]):
        a = order[i]
        account_level, level = account_levels[accounts[a]], levels[a]
        if is_ahead(account_level, level, account_before, before):
            return False
        if is_ahead(account_before, before, account_level, level):
            rank = i
        if ranks[a] != rank:
            return False
        account_before, before = account_level, level
    return True


@kernel
def sort_associations(state: Ints) -> None:
    """Mend the order of before: insertion, since little moves between two ticks."""
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
    """Give each association its part of the weight; whether any changed."""
    order, values = section(state, FAIR_ORDER), section(state, FAIR_VALUE)
    accounts, ranks = section(state, FAIR_ACCOUNT), section(state, FAIR_RANK)
    levels = section(state, FAIR_LEVEL).view(np.float64)
    account_levels = section(state, ACCOUNT_LEVEL).view(np.float64)
    n, weight = state[ASSOCIATIONS], site[SITE_FAIR_WEIGHT]
    changed, rank, value = False, 0, weight
    for i in range(n):
        a, b = order[i], order[max(i - 1, 0)]
        if is_ahead(account_levels[accounts[b]], levels[b], account_levels[accounts[a]], levels[a]):
            rank = i
            # As weight * (n - rank) // n, which large weights would carry beyond 64 bits.
            value = weight // n * (n - rank) + weight % n * (n - rank) // n
        changed = changed or value != values[a]
        values[a], ranks[a] = value, rank
    return changed
