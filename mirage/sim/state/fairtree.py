"""Slurm's fair tree over accounts and users (docs/reference/simulator.md 3, "Fair share").

Slurm lets usage decay. Here new usage gains weight instead. Comparisons give the same results, and
users without running jobs cost nothing.
"""

from typing import Final

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.sim.arrays.jit import inline_kernel, kernel
from mirage.sim.arrays.layout import (
    ACCOUNT_RAW,
    ACCOUNT_SHARES,
    ACCOUNT_USAGE,
    ASSOCIATION,
    ASSOCIATIONS,
    CHARGE,
    FAIR_ACCOUNT,
    FAIR_ORDER,
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
SURELY: Final = 1.0 + 1e-9
"""Two levels whose products differ by more differ themselves, however they were rounded."""


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


@inline_kernel
def compute_level(shares: float, usage: float) -> float:
    """Return what is due over what was used."""
    return shares / usage if usage > 0.0 else np.inf


@inline_kernel
def is_ahead(
    accounts: Ints, shares: Ints, account_usage: Floats, usage: Floats, a: int, b: int
) -> bool:
    """Return whether association a's fair share is ahead of b's."""
    mine, other = accounts[a], accounts[b]
    if mine != other:
        # Products tell the same but where they nearly agree, and cost no division.
        first, second = shares[mine] * account_usage[other], shares[other] * account_usage[mine]
        if first > second * SURELY:
            return True
        if second > first * SURELY:
            return False
        first = compute_level(float(shares[mine]), account_usage[mine])
        second = compute_level(float(shares[other]), account_usage[other])
        if first != second:
            return first > second
    if usage[b] > usage[a] * SURELY:
        return True
    # A division can make equal what was not, but cannot turn the order round.
    return usage[a] < usage[b] and compute_level(1.0, usage[a]) > compute_level(1.0, usage[b])


@kernel
def sort_associations(state: Ints) -> None:
    """Mend the order of before: insertion, since little moves between two ticks."""
    order, accounts = section(state, FAIR_ORDER), section(state, FAIR_ACCOUNT)
    shares, usage = section(state, ACCOUNT_SHARES), section(state, FAIR_USAGE).view(np.float64)
    account_usage = section(state, ACCOUNT_USAGE).view(np.float64)
    for i in range(1, state[ASSOCIATIONS]):
        a, j = order[i], i
        while j > 0 and is_ahead(accounts, shares, account_usage, usage, a, order[j - 1]):
            order[j] = order[j - 1]
            j -= 1
        order[j] = a


@kernel
def set_fair_values(state: Ints, site: Ints) -> bool:
    """Give each association its part of the weight; whether any changed."""
    order, values = section(state, FAIR_ORDER), section(state, FAIR_VALUE)
    accounts, shares = section(state, FAIR_ACCOUNT), section(state, ACCOUNT_SHARES)
    usage = section(state, FAIR_USAGE).view(np.float64)
    account_usage = section(state, ACCOUNT_USAGE).view(np.float64)
    n, weight = state[ASSOCIATIONS], site[SITE_FAIR_WEIGHT]
    changed, rank = False, 0
    for i in range(n):
        if i and is_ahead(accounts, shares, account_usage, usage, order[i - 1], order[i]):
            rank = i
        # As weight * (n - rank) // n, which large weights would carry beyond 64 bits.
        value = weight // n * (n - rank) + weight % n * (n - rank) // n
        changed = changed or value != values[order[i]]
        values[order[i]] = value
    return changed
