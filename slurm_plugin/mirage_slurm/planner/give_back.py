"""Decide whether a link that started early gives its nodes back, and when it is released again.

A link of style `sequential` calls this once, as it begins to wait (carrier/overlap.sh), with
NAME=VALUE words. The service's forecast decides if it is fresh, else the link's own last wait.
This prints one line: `back MINUTES WORDS`, the minutes after the predecessor's start at which the
link's new job becomes eligible; or `keep WORDS`. The return is counted in returns/LINK before the
line is printed. Whatever is unknown means `keep`.
Standard library, Python 3.6.
"""

import os

LIMIT_S = 90
LEAVES_S = 60  # until a job that gives its nodes back is gone, with an epilog
LEAST_BACK_S, MOST_BACK_S = 60, 1800
CLOCK_S = 120  # planner/past_waits.py
STAT = "/proc/stat"
POWERED_UP_S = 1800  # a node that booted so shortly before the job began was powered up for it
FRESH_S = 1200  # mirage/policies/rules/release_cost.py


# --- this link ---------------------------------------------------------------------------------------


class Keeps(Exception):
    """The link keeps its nodes; the message says why."""


def main(argv):
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT_S)  # ends this process, and no line means `keep`
    words = dict(word.partition("=")[::2] for word in argv[1:])
    try:
        line = "back %d %s" % decide_return(words, os.environ)
    except Keeps as reason:
        line = "keep %s" % (reason,)
    except Exception as error:
        line = "keep %s: %s" % (type(error).__name__, error)
    print("".join(c if " " <= c <= "~" else "?" for c in line))
    return 0


def decide_return(words, environ):
    """Decide on a return. Return (minutes after the predecessor's start, why in words); the return is
    counted by then. Raises Keeps if the link keeps its nodes.
    """
    from mirage_slurm.planner import lead_rules, planned, slurm_jobs

    link = planned.Link(dict(words, turn="1"))
    _look_at_chain(link, environ)
    left_s = lead_rules.parse_whole(words["left"])
    if left_s is None or left_s <= lead_rules.BACK_S:
        raise Keeps("the predecessor ends too soon")
    costs = read_costs(_ask_service(link, environ), link)
    count = count_returns(link, environ)  # by the bound that the service has just named
    before = int(words["behind"])
    rows = slurm_jobs.fetch_rows([link.job, before], environ)
    own, predecessor = rows.get(link.job), rows.get(before)
    _look_at_node(own, environ)
    most_s = lead_rules.parse_whole(words.get("bound") or "")
    back_s = measure_back(words, own)
    minutes, basis = choose_minutes(link, own, predecessor, most_s, costs, back_s)
    _look_at_queue(link, environ)
    release = predecessor.start + 60 * minutes
    why = "link %d gives its nodes back: job %d may run for %d s more; the link is released again at %s, %s" % (
        link.index, before, predecessor.end - link.now, format_instant(release), basis)  # fmt: skip
    record_return(link, count + 1, release, why)
    return minutes, why


def format_instant(at):
    import time

    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


# --- may it? -----------------------------------------------------------------------------------------


def _look_at_chain(link, environ):
    """Raise Keeps where links of this chain plan nothing by themselves."""
    if link.damage:
        raise Keeps("the chain's carrier is damaged: " + link.damage)
    why = link.find_objection(environ)
    if why is not None:
        raise Keeps(why)
    if link.read_refusal():
        raise Keeps(link.read_refusal())


def count_returns(link, environ):
    """Return how often this link has given its nodes back. Raises Keeps if it may not once more."""
    count, most = read_count(link), link.bound_returns(environ)
    if most is None:
        raise Keeps("--mirage-returns or max_returns in client.conf is no number of returns")
    if count >= most:
        raise Keeps("the link has given its nodes back %d times, of %d" % (count, most))
    return count


def read_count(link):
    """Return the number of returns so far. Raises Keeps if the file does not read: it is unknown."""
    from mirage_slurm.planner import lead_rules

    if str(link.index) not in os.listdir(link.get_path("returns")):  # not from a cache, as of NFS
        return 0
    count = lead_rules.parse_whole(link.read_line("returns", link.index).partition(" ")[0])
    if count is None:
        raise Keeps("returns/%d does not read" % (link.index,))
    return count


def record_return(link, count, release, why):
    """Write returns/LINK. The caller does this before sbatch: the return counts whatever ends the job."""
    from mirage_slurm.planner import past_waits

    text = "%d %d %d\n%s\n" % (count, link.job, release, why)
    if not past_waits.replace_file(link.get_path("returns", link.index), text):
        raise Keeps("returns/%d cannot be written" % (link.index,))


def _look_at_node(own, environ):
    """Raise Keeps where Slurm seems to have powered this node up for the job; other nodes of the
    job are not seen."""
    from mirage_slurm.client import service

    if own is None or not service.read_slurm_setting("SuspendProgram", environ):
        return
    boot = read_boot_time()
    if boot is None or own.start is None or boot > own.start - POWERED_UP_S:
        raise Keeps("Slurm powers nodes up here, and this one booted shortly before the job began")


def read_boot_time():
    """Return when this node booted, in seconds since 1970; None if the kernel does not say."""
    from mirage_slurm.planner import lead_rules

    try:
        with open(STAT) as lines:
            words = [line.split() for line in lines if line.startswith("btime ")]
    except OSError:
        return None
    return lead_rules.parse_whole(words[0][1]) if words and len(words[0]) == 2 else None


def _ask_service(link, environ):
    """Return what the service says of the costs of a new release; None where it does not answer.

    Raises Keeps where the site only watches.
    """
    from mirage_slurm.planner import plan

    answer = plan.ask_service(link, environ)
    if answer.mode in ("observe", "shadow"):
        raise Keeps("the site's Mirage is in mode %s" % (answer.mode,))
    if answer.has_answered and answer.mode is None:
        raise Keeps("the service %s" % (answer.why,))
    return answer.return_costs


def _look_at_queue(link, environ):
    """Raise Keeps where a job outside the chain waits for this one, or this link has another job.

    Jobs of other users are not seen.
    """
    from mirage_slurm.planner import slurm_jobs

    for chain, index, job, awaited in slurm_jobs.list_queued(environ):
        if chain == link.chain and index == link.index and job != link.job:
            raise Keeps("the link has another job in the queue, %d" % (job,))
        if chain != link.chain and link.job in awaited:
            raise Keeps("job %d depends on this one" % (job,))


# --- when? -------------------------------------------------------------------------------------------


def measure_back(words, own):
    """Return what giving back costs, in seconds of the link's nodes: another start, expected to take
    as long as this one has taken from the job's start to the carrier's first line, and the leave.

    Between one minute and half an hour, whatever the clocks say; BACK_S where they say nothing.
    """
    from mirage_slurm.planner import lead_rules

    began = lead_rules.parse_whole(words.get("since") or "")
    if began is None or own is None or own.start is None or began < own.start - CLOCK_S:
        return lead_rules.BACK_S
    return max(LEAST_BACK_S, min(MOST_BACK_S, began - own.start + LEAVES_S))


def read_costs(answer, link):
    """Read the service's costs: (points, price) as look_up_return_lead takes them. None unless they
    are whole, of this link, and of now: then the link's own rule decides."""
    import calendar
    import time

    from mirage_slurm.planner import lead_rules, past_waits

    try:
        columns = [answer[name] for name in ("left_s", "cost_s", "lead_s")]
        numbers = [number for column in columns for number in column]
        made_at = calendar.timegm(time.strptime(answer["made_at"], "%Y-%m-%dT%H:%M:%SZ"))
        is_own = (answer["chain_id"], answer["link"]) == (link.chain, link.index)
        price = answer["price"]
    except (KeyError, TypeError, ValueError):
        return None
    points = list(zip(*columns))
    is_price = type(price) in (int, float) and 0 <= price <= lead_rules.LARGEST_PRICE
    is_sound = all(type(number) is int and 0 <= number < 1 << 31 for number in numbers)
    is_whole = points and len(numbers) == 3 * len(points)
    is_fresh = -past_waits.CLOCK_S <= link.now - made_at <= FRESH_S
    if not (is_own and is_price and is_sound and is_whole and is_fresh):
        return None
    is_possible = all(lead_s <= left_s for left_s, _, lead_s in points)
    return (points, price) if is_possible and columns[0] == sorted(columns[0]) else None


def choose_minutes(link, own, predecessor, most_s, costs, back_s):
    """Return (the minutes after the predecessor's start, by what it is, in words). Raises Keeps.

    `most_s`: the link's max-overlap, if it started sooner: then it goes whatever the rule says.
    `costs`: of a new release, by the service (read_costs); None: the link's own wait decides.
    `back_s`: what giving back costs.
    """
    from mirage_slurm.planner import lead_rules, planned, slurm_jobs

    if own is None or None in (own.eligible, own.start):
        raise Keeps("squeue does not show how long this job waited")
    if predecessor is None or predecessor.state != slurm_jobs.RUNS:
        raise Keeps("the predecessor is not seen to run")
    if None in (predecessor.start, predecessor.end):
        raise Keeps("the predecessor has no known end")
    now = max(link.now, own.start)  # whichever clock is ahead
    left_s, waited_s = predecessor.end - now, max(0, own.start - own.eligible)
    if costs is None:
        price = lead_rules.PRICE if link.wishes.price is None else link.wishes.price
        lead_s = lead_rules.choose_return_lead(left_s, waited_s, price, back_s)
        basis = "by its last wait of %d s" % (waited_s,)
    else:
        points, price = costs
        lead_s = lead_rules.look_up_return_lead(points, left_s, price, back_s)
        basis = "by the service's forecast"
    if lead_s is None and most_s is None:
        raise Keeps("a new wait costs more than the %d s that are left, %s" % (left_s, basis))
    if lead_s is None:
        lead_s, basis = left_s - back_s - lead_rules.MARGIN_S, "for max-overlap"
    # Released so long before the end, it overlaps as it may if it waits as long as it just did.
    overlap_s = None if most_s is None else most_s + waited_s
    bounds = [bound for bound in (overlap_s, link.wishes.max_lead_s) if bound is not None]
    lead_s = min([lead_s] + bounds)
    minutes = -((predecessor.start + lead_s - predecessor.end) // 60)
    if lead_s < planned.LEAST_LEAD_S or predecessor.start + 60 * minutes < now + back_s:
        raise Keeps("%d s are left for a release %d s before the end" % (left_s, lead_s))
    return minutes, basis
