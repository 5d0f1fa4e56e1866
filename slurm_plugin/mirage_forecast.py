"""Forecast the next link's wait, and compute the lead; reads no file and runs no command.

The rule is the service's `quantile` (mirage/policies/rules/lead_rules.py): the price of overlap
chooses a quantile of the waits of similar jobs. Where the next link may give its nodes back it is
`CheapestLead` there. Standard library, Python 3.6.
"""

import math

LAST = 20  # so many of like jobs: the latest tell most of the next wait
LAST_SWITCHING = 200  # at a switch chain's low price the longest waits decide
ENOUGH = 20  # so few are no sample: the next wider one is taken
ENOUGH_OWN = 1  # of the chain's own hand-overs, which are few and alike
ENOUGH_TENTHS = 10  # fewer waits have no tenth: one that waited for days in a hold would be the p10
PRICE = 0.5  # of an hour of overlap, where nobody says another
LARGEST_PRICE = 100.0  # mirage_wrapper/settings.py
PRICE_LETTERS = frozenset("0123456789.e-")
LEAST_PRICE, MOST_PRICE = 0.01, 0.1  # of a chain whose links switch
START_UP_S = 600  # of a link, until the chain's own hand-overs tell it
MOST_START_UP_S = 4 * 3600  # longer: the predecessor did not answer (overlap_price.py)
OVERLAP_S = 4 * 3600  # the largest overlap by default, and at most this share of the time limit:
OVERLAP_SHARE = 4  # carrier_overlap.sh, mirage/domain/chain.py
ASKING = ("switch", "serve")  # styles in which a link asks the one before it to end
FLOOR_SHARE = 10  # a link is not asked to end before it has worked for this part of its time limit,
MIN_RUNTIME_S = 600  # and for --mirage-min-runtime
FLOOR_S = 300  # no wait of a link that gave its nodes back is expected to be shorter
BACK_S = 360  # what giving back costs, in seconds of the link's nodes
MOST_RETURNS = 9  # mirage_wrapper/settings.py
MARGIN_S = 60  # Slurm counts whole minutes
SERVICE = "the service"  # whose lead it is, where it is not this link's own
NOBODY_WAITS = "no job waits for nodes of the partition"  # so no release is early
WHOLE = 1 << 36  # larger is no number of ours
NEVER_RAN = frozenset(["CANCELLED", "PENDING"])


class Forecast(object):
    """A forecast of such a job's wait: the sample, oldest first, and the likeness in it."""

    __slots__ = ("basis", "waits")

    def __init__(self, waits, basis):
        self.waits = waits
        self.basis = basis  # in words

    def find_quantile(self, fractile):
        """The least wait at or above the fractile: nothing is interpolated."""
        ordered = sorted(self.waits)
        return ordered[max(0, min(len(ordered), math.ceil(fractile * len(ordered))) - 1)]

    def compute_missed(self, lead_s):
        """The interruption to be expected at this lead."""
        return sum(max(0, wait - lead_s) for wait in self.waits) / float(len(self.waits))


class Choice(object):
    """A lead in seconds, the price that it was chosen at, and what it was cut by; in words."""

    __slots__ = ("cut", "lead_s", "price")

    def __init__(self, lead_s, price, cut):
        self.lead_s = lead_s
        self.price = price
        self.cut = cut


class Wanted(object):
    """The wishes of the user and of the admin for a chain; None if nothing was said."""

    __slots__ = ("lead_s", "max_lead_s", "max_overlap_s", "price", "returns", "style")

    def __init__(
        self, style, price=None, max_overlap_s=None, lead_s=None, max_lead_s=None, returns=None
    ):
        self.style = style
        self.returns = returns  # how often an early link may give its nodes back
        self.price = price
        self.max_overlap_s = max_overlap_s
        self.lead_s = lead_s
        self.max_lead_s = max_lead_s


def choose_lead(forecast, limit_s, start_up_s, wanted, longest_s=None):
    """The Choice for a link with this time limit; `forecast` of None: nothing is known.

    `longest_s`: the lead at which the link has worked for its floor; None: no bound.
    """
    lead_s, price = 0, None
    gives_back = bool(wanted.returns) and wanted.style == "sequential"
    if wanted.lead_s is not None:
        lead_s = wanted.lead_s
    elif forecast is not None:
        price = _choose_price(forecast, limit_s, start_up_s, wanted)
        if gives_back:
            lead_s = choose_first_lead(forecast.waits, price)
        else:
            lead_s = forecast.find_quantile(compute_fractile(price))
    is_known = forecast is not None and len(forecast.waits) >= ENOUGH_TENTHS
    # The wait to count on: mirage/policies/rules/overlap_bound.py says why.
    counted_s = forecast.find_quantile(0.5 if gives_back else 0.1) if is_known else 0
    bounds = [(limit_s, "the time limit")]
    bound_s = compute_max_overlap(limit_s, wanted)
    if bound_s is not None:
        bounds.append((bound_s + counted_s if bound_s else 0, "max-overlap"))
    if wanted.max_lead_s is not None:
        bounds.append((wanted.max_lead_s, "max_lead of client.conf"))
    if longest_s is not None:
        bounds.append((longest_s, "min-runtime"))
    most_s, by = min(bounds)
    return Choice(lead_s, price, None) if lead_s <= most_s else Choice(most_s, price, by)


def bound_returns(asked, bounds):
    """Return how often a link may give its nodes back: as often as was asked for, and no more than
    each of the admins' bounds allows, all in text. None: one of them is no number; an empty bound
    bounds nothing."""
    counts = [parse_whole(text) for text in [asked] + [bound for bound in bounds if bound]]
    return None if None in counts else min(counts + [MOST_RETURNS])


def compute_floor(min_runtime_s, limit_s):
    """Return the seconds of work before which no link is asked to end: the service's rule is
    compute_work_floor_s of mirage/policies/rules/overlap_bound.py."""
    return max(min_runtime_s, -(-limit_s // FLOOR_SHARE))


def compute_max_overlap(limit_s, wanted):
    """Return how long before its predecessor's end a link may start; None: as early as it likes."""
    if wanted.max_overlap_s is not None:
        return wanted.max_overlap_s
    if wanted.style == "switch":  # the predecessor ends as soon as the other is ready
        return None
    return min(OVERLAP_S, limit_s // OVERLAP_SHARE)


def compute_fractile(price):
    """The quantile of the wait that is the cheapest lead at this price (newsvendor)."""
    return 1.0 / (1.0 + price)


def _choose_price(forecast, limit_s, start_up_s, wanted):
    if wanted.price is not None:
        return wanted.price
    if wanted.style != "switch":
        return PRICE
    # Nothing runs twice: a lead too long makes more links, each with its start and its interruption.
    first = _clamp_price(start_up_s / float(limit_s))
    missed_s = forecast.compute_missed(forecast.find_quantile(compute_fractile(first)))
    return _clamp_price((start_up_s + missed_s) / limit_s)


def _clamp_price(price):
    return max(LEAST_PRICE, min(MOST_PRICE, price))


def describe_plan(link, choice, forecast, minutes, own):
    """A sentence for people."""
    known = describe_sample(link.waits_read)
    if choice.cut == SERVICE:
        known = "by the service's lead"
    elif forecast is not None:
        p10, p50, p90 = [forecast.find_quantile(level) // 60 for level in (0.1, 0.5, 0.9)]
        known = "%s waited %d, %d and %d min (p10, p50, p90)" % (forecast.basis, p10, p50, p90)
    if choice.price is not None:
        known += ", price %.2g" % (choice.price,)
    elif link.wanted.lead_s is not None and choice.cut != SERVICE:
        known += ", --mirage-lead"
    if choice.cut == NOBODY_WAITS:
        known += ", but %s now" % (NOBODY_WAITS,)
    elif choice.cut is not None and choice.cut != SERVICE:
        known += ", cut to what %s allows" % (choice.cut,)
    if minutes is None:
        return "link %d becomes eligible at the end of job %d: %s" % (
            link.index + 1, link.job, known)  # fmt: skip
    return "link %d, job %d, becomes eligible %d min after job %d started, %d min before its end: %s" % (
        link.index + 1, link.successor, minutes, link.job,
        (own.end - own.start) // 60 - minutes, known)  # fmt: skip


def describe_sample(count):
    """Say why `count` past waits of the partition make no forecast."""
    if not count:
        return "no past waits are known"
    return "%d past wait%s of the partition %s known, and a forecast needs %d" % (
        count, "" if count == 1 else "s", "is" if count == 1 else "are", ENOUGH)  # fmt: skip


# --- returns: mirage/policies/rules/return_rule.py and tests/data/give-back-cases.json have the same -----


def choose_return_lead(left_s, waited_s, price, back_s=BACK_S):
    """Return how many seconds before its predecessor's end an early link is to be released again;
    None: it keeps its nodes.

    `left_s`: until that end. `waited_s`: from this job's release to its start. The next wait is
    about as long, within a factor of two.
    """
    again = _plan_return(left_s, waited_s, price, back_s)
    return again[1] if again is not None and again[0] < price * left_s else None


def look_up_return_lead(points, left_s, price, back_s=BACK_S):
    """The same by what a new release is expected to cost.

    `points`: (seconds left as the nodes are given back, the cost of the best new release from then
    on, its lead), ascending.
    """
    back_at_s = left_s - back_s
    lower = sum(point[0] <= back_at_s for point in points) - 1
    if lower < 0 or back_s < 0 or not 0 < price < float("inf"):
        return None
    from_s, from_cost_s, lead_s = points[lower]
    cost_s = float(from_cost_s)
    if lower + 1 < len(points):
        to_s, to_cost_s, longer_s = points[lower + 1]
        cost_s += (to_cost_s - from_cost_s) * (back_at_s - from_s) / (to_s - from_s)
        if lead_s == from_s:  # all that was left there
            lead_s = min(back_at_s, longer_s)
    lead_s = max(MARGIN_S, lead_s)
    keeps = price * left_s <= price * back_s + cost_s
    return None if keeps or lead_s > back_at_s else lead_s


def choose_first_lead(waits_s, price):
    """Return the cheapest of these waits of similar jobs as a lead, where a link that starts early
    may give its nodes back; of equals the shortest."""
    costs = [
        (sum(_compute_cost(lead_s, wait_s, price) for wait_s in waits_s), lead_s)
        for lead_s in set(waits_s)
    ]
    return min(costs)[1]


def _plan_return(left_s, waited_s, price, back_s):
    """(what giving back is expected to cost, in seconds of interruption, the next lead), or None."""
    if waited_s < 0 or back_s < 0 or not 0 < price < float("inf"):
        return None
    waits = [max(FLOOR_S, wait_s) for wait_s in (waited_s // 2, waited_s, 2 * waited_s)]
    costs = [
        (sum(max(0, w - lead_s) + price * max(0, lead_s - w) for w in waits) / len(waits), lead_s)
        for lead_s in waits
        if lead_s <= left_s - back_s - MARGIN_S
    ]
    return (price * back_s + min(costs)[0], min(costs)[1]) if costs else None


def _compute_cost(lead_s, wait_s, price):
    """What a lead costs if the wait is this long, in seconds of interruption."""
    if wait_s >= lead_s:
        return wait_s - lead_s
    left_s = lead_s - wait_s
    again = _plan_return(left_s, wait_s, price, BACK_S)
    return price * left_s if again is None else min(price * left_s, again[0])


# --- the sample ------------------------------------------------------------------------------------


def forecast_like_jobs(rows, nodes, limit_s, price, last=LAST):
    """A Forecast of rows (nodes, time limit, wait), oldest first; None where there are none.

    `price` says where a change of the waits is looked for; LAST jobs are too few to cut.
    """
    same = [row for row in rows if _is_near(row[0], nodes)]
    for alike, what in (
        ([row for row in same if _is_near(row[1], limit_s)], "of similar nodes and time limit"),
        (same, "of similar nodes"),
        (rows, "of the partition"),
    ):
        if len(alike) >= ENOUGH:
            waits = cut_before_change([row[2] for row in alike[-last:]], compute_fractile(price))
            return Forecast(waits, "%d jobs %s" % (len(waits), what))
    return None


def forecast_handovers(waits):
    """A Forecast of what this chain's own links waited; None of too few."""
    if len(waits) < ENOUGH_OWN:
        return None
    return Forecast(waits, "%d of the chain's own links" % (len(waits),))


def _is_near(one, other):
    return other <= 2 * one and one <= 2 * other


def cut_before_change(waits, level, keep=20, significance=0.05):
    """The waits after the last change point, as mirage/policies/rules/lead_rules.py has it (QBETS)."""
    limit = Forecast(waits, "").find_quantile(level)
    above = [wait > limit for wait in waits]
    if len(waits) <= keep or all(above) or not above[-1]:
        return waits
    run = above[::-1].index(False)
    rho = _compute_lag_correlation(above[:-run])
    needed = math.log(significance) / math.log(1.0 - level) * (1 + rho) / (1 - rho)
    return waits if run < needed else waits[-max(run, keep) :]


def _compute_lag_correlation(above):
    earlier, later = above[:-1], above[1:]
    if len(above) < 3 or len(set(earlier)) < 2 or len(set(later)) < 2:
        return 0.0
    n = float(len(earlier))
    one, other = sum(earlier) / n, sum(later) / n
    both = sum(a and b for a, b in zip(earlier, later)) / n
    rho = (both - one * other) / math.sqrt(one * (1 - one) * other * (1 - other))
    return max(0.0, min(0.95, rho))


# --- sacct's rows ----------------------------------------------------------------------------------

COLUMNS = "Submit,Eligible,Start,NNodes,TimelimitRaw,ElapsedRaw,State"


def parse_row(line):
    """(start, nodes, time limit, wait) of a line of sacct with times in seconds; None of a job that
    never started, or whose line does not read."""
    words = line.split("|")
    if len(words) != 7:
        return None
    submit, eligible, start, nodes, minutes, ran = [parse_whole(word) for word in words[:6]]
    if None in (submit, eligible, start, nodes, ran) or not nodes:
        return None
    if ran == 0 and words[6].split(" ")[0] in NEVER_RAN:
        return None
    limit_s = WHOLE if minutes is None else 60 * minutes  # UNLIMITED, Partition_Limit
    since = max(submit, eligible)
    return (start, nodes, limit_s, start - since) if start >= since else None


def parse_whole(text):
    """A whole number that is not absurd; else None."""
    if not (text and len(text) <= 11 and set(text) <= set("0123456789")):
        return None
    return int(text)


# --- numbers that the carrier gives -----------------------------------------------------------------


def parse_given(told, name, damage):
    """A whole number, or None where nothing is said.

    What is no number is named in `damage`: if it counted as nothing said, another number would
    silently stand in its place.
    """
    text = told.get(name) or ""
    number = parse_whole(text)
    if text and str(number) != text:
        damage.append("%s=%s is not a number" % (name, ascii(text[:40])))
    return number


def parse_price(told, damage):
    """The price as the wrapper takes it, or None; of `damage` see parse_given."""
    text = told.get("price") or ""
    try:
        price = float(text) if set(text) <= PRICE_LETTERS else -1.0
    except ValueError:
        price = -1.0
    if text and not 0.0 <= price <= LARGEST_PRICE:
        damage.append("price=%s is not a price" % (ascii(text[:40]),))
    return price if text else None
