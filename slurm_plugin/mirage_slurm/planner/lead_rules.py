"""Forecast the next link's wait, and compute the lead; reads no file and runs no command.

The rule is the service's `quantile` (mirage/policies/rules/lead_rules.py): the price of overlap
chooses a quantile of the waits of similar jobs. Where the next link may give its nodes back it is
`CheapestLead` there. Standard library, Python 3.6.
"""

import math

LAST = 20  # of similar jobs only the latest count: they tell most about the next wait
LAST_SWITCHING = 200  # at a switch chain's low price the longest waits decide
ENOUGH = 20  # with fewer jobs the next wider sample is taken
ENOUGH_OWN = 1  # the chain's own hand-overs are few and alike, so one is enough
ENOUGH_TENTHS = 10  # fewer waits have no p10: a single wait of days in a hold would be it
PRICE = 0.5  # of an hour of overlap in hours of interruption, unless the user states another
LARGEST_PRICE = 100.0  # wrapper/settings.py
PRICE_LETTERS = frozenset("0123456789.e-")
LEAST_PRICE, MOST_PRICE = 0.01, 0.1  # of a chain whose links switch
START_UP_S = 600  # of a link, until the chain's own hand-overs have measured it
MOST_START_UP_S = 4 * 3600  # a longer time is no start-up: the predecessor did not answer
# The default bound of the overlap: OVERLAP_S, but at most the time limit / OVERLAP_SHARE. The carrier
# (carrier/overlap.sh) and the service (mirage/domain/chain.py) have the same rule.
OVERLAP_S = 4 * 3600
OVERLAP_SHARE = 4
ASKING = ("switch", "serve")  # styles in which a link asks the one before it to end
# The floor: a link is not asked to end before it has worked for time limit / FLOOR_SHARE, nor before
# --mirage-min-runtime.
FLOOR_SHARE = 10
MIN_RUNTIME_S = 600
FLOOR_S = 300  # after giving nodes back no shorter wait is expected
BACK_S = 360  # what giving back costs, in seconds of the link's nodes
MOST_RETURNS = 9  # wrapper/settings.py
MARGIN_S = 60  # Slurm counts whole minutes
SERVICE = "the service"  # as Choice.cut_by: the lead is the service's
NOBODY_WAITS = "no job waits for nodes of the partition"  # as Choice.cut_by: no release is early
WHOLE = 1 << 36  # stands for an unlimited time limit
NEVER_RAN = frozenset(["CANCELLED", "PENDING"])


class Forecast(object):
    """A forecast of a job's wait: a sample of waits in seconds, oldest first, and what sample it is."""

    __slots__ = ("basis", "waits")

    def __init__(self, waits, basis):
        self.waits = waits
        self.basis = basis  # in words

    def find_quantile(self, fractile):
        """Return the least wait at or above the fractile. Nothing is interpolated."""
        ordered = sorted(self.waits)
        return ordered[max(0, min(len(ordered), math.ceil(fractile * len(ordered))) - 1)]

    def compute_interruption(self, lead_s):
        """Return the expected interruption in seconds at this lead."""
        return sum(max(0, wait - lead_s) for wait in self.waits) / float(len(self.waits))


class Choice(object):
    """A lead in seconds, the price that it was chosen at, and in words what has bounded it.

    `price` is None for a lead by hand or by the service, `cut_by` for a lead that nothing bounds.
    """

    __slots__ = ("cut_by", "lead_s", "price")

    def __init__(self, lead_s, price, cut_by):
        self.lead_s = lead_s
        self.price = price
        self.cut_by = cut_by


class Wishes(object):
    """The user's settings of a chain and the admin's bound; None stands for an unset one."""

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


def choose_lead(forecast, limit_s, start_up_s, wishes, longest_s=None):
    """Return the Choice for a link with this time limit in seconds.

    `forecast`: None: nothing is known, so the lead is 0 unless the user states one. `start_up_s`:
    from a job's start to its first work. `longest_s`: the lead at which the link has worked for its
    floor; None: no bound.
    """
    lead_s, price = 0, None
    gives_back = bool(wishes.returns) and wishes.style == "sequential"
    if wishes.lead_s is not None:
        lead_s = wishes.lead_s
    elif forecast is not None:
        price = _choose_price(forecast, limit_s, start_up_s, wishes)
        if gives_back:
            lead_s = choose_first_lead(forecast.waits, price)
        else:
            lead_s = forecast.find_quantile(compute_fractile(price))
    is_known = forecast is not None and len(forecast.waits) >= ENOUGH_TENTHS
    # The wait to count on: mirage/policies/rules/overlap_bound.py says why.
    counted_s = forecast.find_quantile(0.5 if gives_back else 0.1) if is_known else 0
    bounds = [(limit_s, "the time limit")]
    bound_s = compute_max_overlap(limit_s, wishes)
    if bound_s is not None:
        bounds.append((bound_s + counted_s if bound_s else 0, "max-overlap"))
    if wishes.max_lead_s is not None:
        bounds.append((wishes.max_lead_s, "max_lead of client.conf"))
    if longest_s is not None:
        bounds.append((longest_s, "min-runtime"))
    most_s, by = min(bounds)
    return Choice(lead_s, price, None) if lead_s <= most_s else Choice(most_s, price, by)


def bound_returns(requested, bounds):
    """Return how often a link may give its nodes back: as often as was asked for, and no more than
    each of the admins' bounds allows, all in text. None: one of them is no number; an empty bound
    bounds nothing."""
    counts = [parse_whole(text) for text in [requested] + [bound for bound in bounds if bound]]
    return None if None in counts else min(counts + [MOST_RETURNS])


def compute_floor(min_runtime_s, limit_s):
    """Return the seconds of work before which no link is asked to end. The service has the same rule:
    compute_work_floor_s in mirage/policies/rules/overlap_bound.py."""
    return max(min_runtime_s, -(-limit_s // FLOOR_SHARE))


def compute_max_overlap(limit_s, wishes):
    """Return how many seconds before its predecessor's end a link may start; None: no bound.

    tests/data/overlap-bound-cases.json has the cases of this rule, of the carrier's
    (mirage_bound_overlap) and of the service's (get_allowed_overlap_s in mirage/domain/chain.py).
    """
    if wishes.max_overlap_s is not None:
        return wishes.max_overlap_s
    if wishes.style == "switch":  # the predecessor ends as soon as its successor is ready
        return None
    return min(OVERLAP_S, limit_s // OVERLAP_SHARE)


def compute_fractile(price):
    """Return the level of the quantile of waits that is the cheapest lead at this price: the
    newsvendor's rule. tests/data/quantile-lead-cases.json has the cases of this rule and of the
    service's (mirage/policies/rules/lead_rules.py)."""
    return 1.0 / (1.0 + price)


def _choose_price(forecast, limit_s, start_up_s, wishes):
    if wishes.price is not None:
        return wishes.price
    if wishes.style != "switch":
        return PRICE
    # Nothing runs twice, so too long a lead costs no overlap. But it makes more links, each with a
    # start-up and an interruption: their share of the time limit is the price.
    first_price = _clamp_price(start_up_s / float(limit_s))
    interruption_s = forecast.compute_interruption(
        forecast.find_quantile(compute_fractile(first_price))
    )
    return _clamp_price((start_up_s + interruption_s) / limit_s)


def _clamp_price(price):
    return max(LEAST_PRICE, min(MOST_PRICE, price))


def describe_plan(link, choice, forecast, minutes, own):
    """Return a sentence for people: when the next link is released, and why. `own`: this link's Row."""
    basis = describe_sample(link.waits_count)
    if choice.cut_by == SERVICE:
        basis = "by the service's lead"
    elif forecast is not None:
        p10, p50, p90 = [forecast.find_quantile(level) // 60 for level in (0.1, 0.5, 0.9)]
        basis = "%s waited %d, %d and %d min (p10, p50, p90)" % (forecast.basis, p10, p50, p90)
    if choice.price is not None:
        basis += ", price %.2g" % (choice.price,)
    elif link.wishes.lead_s is not None and choice.cut_by != SERVICE:
        basis += ", --mirage-lead"
    if choice.cut_by == NOBODY_WAITS:
        basis += ", but %s now" % (NOBODY_WAITS,)
    elif choice.cut_by is not None and choice.cut_by != SERVICE:
        basis += ", cut to what %s allows" % (choice.cut_by,)
    if minutes is None:
        return "link %d becomes eligible at the end of job %d: %s" % (
            link.index + 1, link.job, basis)  # fmt: skip
    return "link %d, job %d, becomes eligible %d min after job %d started, %d min before its end: %s" % (
        link.index + 1, link.successor, minutes, link.job,
        (own.end - own.start) // 60 - minutes, basis)  # fmt: skip


def describe_sample(count):
    """Say why `count` past waits of the partition make no forecast."""
    if not count:
        return "no past waits are known"
    return "%d past wait%s of the partition %s known, and a forecast needs %d" % (
        count, "" if count == 1 else "s", "is" if count == 1 else "are", ENOUGH)  # fmt: skip


# --- returns. mirage/policies/rules/return_rule.py has the same rules, and -------------------------------
# --- tests/data/give-back-cases.json the cases of both ---------------------------------------------------


def choose_return_lead(left_s, waited_s, price, back_s=BACK_S):
    """Return how many seconds before its predecessor's end an early link is to be released again;
    None: it keeps its nodes.

    `left_s`: until that end. `waited_s`: from this job's release to its start; the next wait is
    expected to be as long, within a factor of two. `back_s`: what giving back costs.
    """
    plan = _plan_return(left_s, waited_s, price, back_s)
    return plan[1] if plan is not None and plan[0] < price * left_s else None


def look_up_return_lead(points, left_s, price, back_s=BACK_S):
    """Return the same as choose_return_lead, by the expected costs of a new release.

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
    """Return the cheapest lead among these waits of similar jobs, for a link that may give its nodes
    back if it starts early. Of equally cheap leads the shortest is taken."""
    costs = [
        (sum(_compute_cost(lead_s, wait_s, price) for wait_s in waits_s), lead_s)
        for lead_s in set(waits_s)
    ]
    return min(costs)[1]


def _plan_return(left_s, waited_s, price, back_s):
    """Return (the expected cost of giving back, in seconds of interruption, the next lead); None if
    no lead fits."""
    if waited_s < 0 or back_s < 0 or not 0 < price < float("inf"):
        return None
    waits = [max(FLOOR_S, wait_s) for wait_s in (waited_s // 2, waited_s, 2 * waited_s)]
    costs = [
        (
            sum(max(0, wait_s - lead_s) + price * max(0, lead_s - wait_s) for wait_s in waits)
            / len(waits),
            lead_s,
        )
        for lead_s in waits
        if lead_s <= left_s - back_s - MARGIN_S
    ]
    return (price * back_s + min(costs)[0], min(costs)[1]) if costs else None


def _compute_cost(lead_s, wait_s, price):
    """Return what a lead costs if the wait is this long, in seconds of interruption."""
    if wait_s >= lead_s:
        return wait_s - lead_s
    left_s = lead_s - wait_s
    plan = _plan_return(left_s, wait_s, price, BACK_S)
    return price * left_s if plan is None else min(price * left_s, plan[0])


# --- the sample ------------------------------------------------------------------------------------


def forecast_like_jobs(rows, nodes, limit_s, price, last=LAST):
    """Return a Forecast from rows (nodes, time limit, wait), oldest first; None if there are too few.

    `price` gives the quantile at which a change of the waits is looked for (cut_before_change).
    """
    same = [row for row in rows if _is_near(row[0], nodes)]
    for similar, basis in (
        ([row for row in same if _is_near(row[1], limit_s)], "of similar nodes and time limit"),
        (same, "of similar nodes"),
        (rows, "of the partition"),
    ):
        if len(similar) >= ENOUGH:
            waits = cut_before_change([row[2] for row in similar[-last:]], compute_fractile(price))
            return Forecast(waits, "%d jobs %s" % (len(waits), basis))
    return None


def forecast_handovers(waits):
    """Return a Forecast from the waits of this chain's own links; None if there are too few."""
    if len(waits) < ENOUGH_OWN:
        return None
    return Forecast(waits, "%d of the chain's own links" % (len(waits),))


def _is_near(one, other):
    return other <= 2 * one and one <= 2 * other


def cut_before_change(waits, level, keep=20, significance=0.05):
    """Return the waits after the last change point, at least `keep` of them (QBETS). It is
    drop_before_change in mirage/policies/rules/lead_rules.py, which explains the rule."""
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
    """Return (start, nodes, time limit, wait) from a line of sacct, times in seconds; None for a job
    that never started, or a line that does not read."""
    cells = line.split("|")
    if len(cells) != 7:
        return None
    submit, eligible, start, nodes, minutes, run_s = [parse_whole(word) for word in cells[:6]]
    if None in (submit, eligible, start, nodes, run_s) or not nodes:
        return None
    if run_s == 0 and cells[6].split(" ")[0] in NEVER_RAN:
        return None
    limit_s = WHOLE if minutes is None else 60 * minutes  # UNLIMITED, Partition_Limit
    since = max(submit, eligible)
    return (start, nodes, limit_s, start - since) if start >= since else None


def parse_whole(text):
    """Return a whole number of at most 11 digits; None for any other text."""
    if not (text and len(text) <= 11 and set(text) <= set("0123456789")):
        return None
    return int(text)


# --- settings in the carrier's words ----------------------------------------------------------------


def parse_setting(words, name, damage):
    """Return the whole number of a setting; None if it is unset.

    A text that is no number is added to `damage`, a list of sentences. It must not count as unset:
    a default would silently take its place.
    """
    text = words.get(name) or ""
    number = parse_whole(text)
    if text and str(number) != text:
        damage.append("%s=%s is not a number" % (name, ascii(text[:40])))
    return number


def parse_price(words, damage):
    """Return the price if the wrapper would take it; None if it is unset. See parse_setting for
    `damage`."""
    text = words.get("price") or ""
    try:
        price = float(text) if set(text) <= PRICE_LETTERS else -1.0
    except ValueError:
        price = -1.0
    if text and not 0.0 <= price <= LARGEST_PRICE:
        damage.append("price=%s is not a price" % (ascii(text[:40]),))
    return price if text else None
