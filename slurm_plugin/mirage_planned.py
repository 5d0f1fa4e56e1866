"""A running link and its plan for the next link: read both jobs from Slurm, write the plan.

Standard library, Python 3.6.
"""

import os
import time

import mirage_forecast
import mirage_jobs
import mirage_service
import mirage_waits
from mirage_duration import parse_duration
from mirage_jobs import ENDED, RUNS, Row, Unseen

OWN_PLANS, NO_PLANS = "own", "never"  # client.conf: plans = own | never
WAITS = frozenset(["PENDING"])
SUSPENDED = "SUSPENDED"
BEATS = 3  # so long a heartbeat tells that its link runs, as in carrier_guard.sh
LEAST_LEAD_S = 60
MOVED_MINUTES = 6  # by less a plan stays where it is: it would save less than a tenth of an hour


class Seen(object):
    """One look: this link, its successor, and whether an earlier link still runs."""

    __slots__ = ("company", "own", "successor")

    def __init__(self, own, successor, company):
        self.own = own
        self.successor = successor
        self.company = company


class Link(object):
    """The link that runs, as its carrier tells of it."""

    def __init__(self, told):
        self.now = int(time.time())
        self.chain, self.directory, self.job = told["chain"], told["dir"], int(told["job"])
        self.index, self.turn = int(told["link"]), int(told["turn"])
        self.jumped = told.get("jumped") == "1"  # it was suspended since the last turn
        damage = []
        self.beat_s = mirage_forecast.parse_given(told, "beat_s", damage) or 60
        least_s = mirage_forecast.parse_given(told, "min_runtime", damage)
        self.min_runtime_s = mirage_forecast.MIN_RUNTIME_S if least_s is None else least_s
        self.partition, self.qos = told.get("partition", ""), told.get("qos", "")
        self.asks_nobody = told.get("service") == "none"
        self.plans = told.get("plans") or OWN_PLANS  # as client.conf said where it was submitted
        self.max_lead = told.get("max_lead", "")
        self.returns = told.get("returns", "")
        self.max_returns = told.get("max_returns", "")
        self.wanted = mirage_forecast.Wanted(
            told["style"],
            price=mirage_forecast.parse_price(told, damage),
            max_overlap_s=mirage_forecast.parse_given(told, "max_overlap", damage),
            lead_s=mirage_forecast.parse_given(told, "lead", damage),
        )
        self.asks_to_end = self.wanted.style in mirage_forecast.ASKING
        self.damage = ", ".join(damage)  # in words; then the link plans nothing
        self.successor = _parse_whole(self.read_line("jobs", self.index + 1))
        self.waits_read = 0  # of jobs of the partition, by the last forecast

    def read_line(self, *names):
        return mirage_waits.read_own_line(self.get_path(*names), self.now)

    def get_path(self, *names):
        return os.path.join(self.directory, *[str(name) for name in names])

    def log_once(self, said):
        """Log it unless it is this link's last word: a trouble that lasts is said once."""
        mark = " link %d job %d: " % (self.index, self.job)
        own = [line for line in mirage_waits.read_end(self.get_path("log")) if mark in line]
        if not own or own[-1].partition(mark)[2] != said:
            self.log_line(said)

    def log_line(self, said):
        line = "%d link %d job %d: %s\n" % (self.now, self.index, self.job, said)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            with os.fdopen(os.open(self.get_path("log"), flags, 0o600), "w") as file:
                file.write("".join(c if c.isprintable() or c == "\n" else "?" for c in line))
        except OSError:
            pass

    # What holds it back.

    def list_earlier_links(self):
        """The earlier links that have begun and have written no end, the last fifty: their jobs."""
        found = []
        for one in range(max(1, self.index - 50), self.index):
            begun = os.path.exists(self.get_path("started", one))
            if begun and not os.path.exists(self.get_path("ends", one)):
                job = _parse_whole(self.read_line("jobs", one))
                found += [(one, job)] if job else []
        return found

    def find_company(self):
        """Return an earlier link that still runs, by files alone: no question is asked; else None.

        One whose heartbeat stands still may be gone: Slurm is asked about it, with the other jobs.
        """
        for one, _ in self.list_earlier_links():
            until = _parse_whole(self.read_line("deadline", one))
            beat = _parse_whole(self.read_line("beat", one))
            beats = beat is not None and self.now - beat < BEATS * self.beat_s
            if beats and (until is None or self.now < until + 300):
                return one
        return None

    def find_objection(self, environ):
        """Why this link plans nothing by itself; None where it may."""
        for said in (self.plans, mirage_service.read_configured("plans", environ) or OWN_PLANS):
            if said != OWN_PLANS:
                return "plans = %s in client.conf" % ("".join(filter(str.isalnum, said)),)
        given = [self.max_lead, mirage_service.read_configured("max_lead", environ)]
        most = [parse_duration(text) for text in given if text]
        if None in most:
            return "max_lead in client.conf is not a time like 2:00:00"
        self.wanted.max_lead_s = min(most) if most else None
        self.wanted.returns = self.bound_returns(environ)
        return None

    def bound_returns(self, environ):
        """Return how often a link may give its nodes back: by client.conf where the chain was
        submitted and here, and by the service's last word. None: some number does not read."""
        configured = mirage_service.read_configured("max_returns", environ)
        bounds = [self.max_returns, configured, self.read_line("told_returns")]
        return mirage_forecast.bound_returns(self.returns, bounds)

    def read_refusal(self):
        """Return the site's words if it refused a plan of this chain: it is not asked again."""
        return self.read_line("unplanned")

    # What the service last said of the site's mode.

    def record_mode(self, mode):
        mirage_waits.replace_file(self.get_path("told_mode"), "%s %d\n" % (mode, self.now))

    def record_bound(self, returns):
        """Write down the service's bound on returns, which holds until it names another; None: it
        names none."""
        if returns is not None:
            mirage_waits.replace_file(self.get_path("told_returns"), "%d\n" % (returns,))
        elif self.read_line("told_returns"):
            self.remove_file("told_returns")

    def remove_file(self, name):
        try:
            os.unlink(self.get_path(name))
        except OSError:
            pass

    def read_mode(self, heeded_s):
        mode, _, at = self.read_line("told_mode").partition(" ")
        told = mirage_forecast.parse_whole(at)
        is_new = told is not None and 0 <= self.now + mirage_waits.CLOCK_S - told < heeded_s
        return mode if is_new and mode in ("observe", "shadow") else None

    # What it knows.

    def fetch_like_jobs(self, environ):
        if not self.partition:
            return []
        return mirage_waits.read_like_jobs(self.partition, self.qos, self.job, environ, self.now)

    def forecast_wait(self, rows, own):
        """Forecast by like jobs, else by the chain's own hand-overs; None: too little is known."""
        self.waits_read = len(rows)
        price = mirage_forecast.PRICE if self.wanted.price is None else self.wanted.price
        last = mirage_forecast.LAST
        if self.wanted.style == "switch":
            last = mirage_forecast.LAST_SWITCHING
        alike = mirage_forecast.forecast_like_jobs(rows, own.nodes or 1, own.limit_s, price, last)
        if alike is not None:
            return alike
        notes = mirage_waits.read_handovers(self.directory, self.index, self.now)
        return mirage_forecast.forecast_handovers([wait for _, _, wait in notes])

    def choose_lead(self, forecast, own):
        known = mirage_waits.compute_start_up(self.directory, self.index, self.now)
        start_up_s = mirage_forecast.START_UP_S if known is None else known
        longest_s = mirage_waits.compute_longest_lead(self, own, start_up_s)
        wanted = self.wanted
        return mirage_forecast.choose_lead(forecast, own.limit_s, start_up_s, wanted, longest_s)

    def record_handover(self, seen):
        """This link's own hand-over, once."""
        own = seen.own
        is_noted = os.path.exists(self.get_path("waited", self.index))
        if self.index == 1 or own.eligible is None or is_noted:
            return
        end = _parse_whole(self.read_line("deadline", self.index - 1)) or own.eligible
        wait_s = max(0, own.start - own.eligible)
        mirage_waits.record_handover(
            self.directory, self.index, own.start, end - own.eligible, wait_s
        )

    def look_at_jobs(self, environ):
        """Raises Unseen where squeue does not tell of both jobs."""
        if self.successor is None:
            raise Unseen("the next link is not in the queue yet")
        others = [job for _, job in self.list_earlier_links()]
        rows = mirage_jobs.fetch_rows([self.job, self.successor] + others, environ)
        own = rows.get(self.job)
        if own is None or self.successor not in rows:
            raise Unseen("squeue does not show jobs %d and %d" % (self.job, self.successor))
        company = [job for job in others if job in rows and rows[job].state not in ENDED | WAITS]
        if own.start is None:
            raise Unseen("squeue does not show when job %d started" % (self.job,))
        return Seen(own, rows[self.successor], company)

    # When to plan again, and what is said.

    def schedule_after(self, seconds):
        """The instant of the next turn; 0 where this is the last one."""
        return self.now + max(60, seconds) if self.turn < TURNS else 0

    def schedule_before(self, release):
        """Three quarters of the way to the release: nearer, more is known. At the last turn the
        release itself: only a job that is suspended before looks again."""
        if release <= self.now:
            return 0
        return self.schedule_after(3 * (release - self.now) // 4) or release

    def record_outcome(self, plan, again, said):
        """Write down what came of it, and log it."""
        Planned(self.successor, plan.minutes, again, said, plan.own, plan.was).save(self)
        self.log_line(said)
        return 0


TURNS = 3


def _parse_whole(text):
    return mirage_forecast.parse_whole(text or "")


# --- the plan: plans/<link>, a line for programs and one for people -----------------------------------


class Planned(object):
    """The plan that this link wrote into its successor's dependency: the minutes, or None.

    `was`: the dependency's earlier minutes, if it is not known whether Slurm has taken the change.
    """

    __slots__ = ("again", "job", "minutes", "own", "said", "was")

    def __init__(self, job, minutes, again, said, own=None, was=()):
        self.job = job
        self.minutes = minutes
        self.again = again
        self.said = said
        self.own = own  # this link's Row, as it was seen then
        self.was = was

    def save(self, link):
        """Return whether it could be written down."""
        own = self.own
        known = (own.nodes, own.start, own.end) if own is not None else (None,) * 3
        numbers = (self.again, self.job, self.minutes) + known + tuple(self.was)
        words = ["-" if number is None else str(number) for number in numbers]
        text = "%s\n%s\n" % (" ".join(words), self.said)
        return mirage_waits.replace_file(link.get_path("plans", link.index), text)


NOTHING = Planned(None, None, 0, "")


def read_plan(link):
    """Read the plan for this very job; return NOTHING if another job stands there now."""
    words = link.read_line("plans", link.index).split(" ")
    if len(words) not in (6, 7) or link.successor is None or words[1] != str(link.successor):
        return NOTHING
    minutes, nodes, start, end = map(_parse_whole, words[2:6])
    own = Row(RUNS, "", None, start, end, nodes) if start is not None and end is not None else None
    return Planned(link.successor, minutes, 0, "", own, tuple(map(_parse_whole, words[6:])))


def format_dependency(job, minutes):
    """Met when `job` has ended, or so many minutes after its start; None: when it has ended."""
    plain = "afterany:%d" % (job,)
    return plain if minutes is None else "%s?after:%d+%d" % (plain, job, minutes)


def find_hindrance(link, seen, before, by_service=None):
    """Why the successor's dependency is not to be touched now; None where it may be.

    `by_service`: the Choice that the service names; the service may have written that plan itself.
    """
    own, successor = seen.own, seen.successor
    if own.state != RUNS:
        return "job %d is %s" % (link.job, own.state)
    if own.end is None:
        return "job %d has no time limit" % (link.job,)
    if seen.company:
        return "job %d of an earlier link still runs" % (seen.company[0],)
    if os.path.exists(link.get_path("requeued", link.index + 1)):
        return "the next link has already started too early once"
    if os.path.exists(link.get_path("returns", link.index + 1)):
        return "the next link has given its nodes back, with a release of its own"
    if successor.state != "PENDING":
        return "the next link, job %d, is %s" % (link.successor, successor.state)
    if any(is_planned_so(link, seen, minutes) for minutes in (before.minutes,) + before.was):
        return None
    if by_service is not None and is_planned_so(link, seen, compute_minutes(own, by_service)):
        return None
    if is_released(link, seen, before):
        return "Slurm has released the next link, job %d, by the plan" % (link.successor,)
    return (
        "somebody else changed the dependency of job %d (you, an admin, or the service),"
        " so the link leaves it alone" % (link.successor,)
    )


def is_planned_so(link, seen, minutes):
    """Return whether the successor's dependency reads as a link with this plan writes it."""
    stands = seen.successor.dependency.replace("(unfulfilled)", "")
    return stands == format_dependency(link.job, minutes)


def is_released(link, seen, before):
    """Return whether the successor waits for nothing any more, and one of this link's plans is due."""
    planned = [minutes for minutes in (before.minutes,) + before.was if minutes is not None]
    is_due = any(link.now >= seen.own.start + 60 * minutes for minutes in planned)
    return is_due and seen.successor.dependency in ("", "(null)")


def find_standing(link, seen, before):
    """Return which of this link's own plans stands: Slurm may not have taken the last change."""
    for minutes in (before.minutes,) + before.was:
        if is_planned_so(link, seen, minutes):
            return minutes
    return before.minutes  # the service's stands


def find_kept_plan(link, seen, before):
    """Return the minutes of the plan that stands, if it is still within its bounds; else None.

    A link that knows nothing has no reason to take back what a service or the link itself planned.
    """
    minutes = find_standing(link, seen, before)
    if minutes is None or before.own is None or before.own.limit_s != seen.own.limit_s:
        return None
    most_s = link.wanted.max_lead_s
    lead_s = seen.own.limit_s - 60 * minutes
    return minutes if most_s is None or lead_s <= most_s else None


def compute_minutes(own, choice):
    """Return the minutes of this lead after the start; None: at the end.

    Rounded up: the link is never earlier than it may be.
    """
    if choice.lead_s < LEAST_LEAD_S:
        return None
    return max(1, -((own.start + choice.lead_s - own.end) // 60))


def write_plan(link, seen, before, choice, forecast, environ):
    """Plan the release by this lead; leave what stands where it would move by little."""
    own, minutes = seen.own, compute_minutes(seen.own, choice)
    said = mirage_forecast.describe_plan(link, choice, forecast, minutes, own)
    again = link.schedule_before(own.end if minutes is None else own.start + 60 * minutes)
    if choice.cut == mirage_forecast.NOBODY_WAITS:  # somebody may come
        again = link.schedule_after((own.end - link.now) // 2) or own.end
    standing = find_standing(link, seen, before)
    is_services = choice.cut == mirage_forecast.SERVICE and is_planned_so(link, seen, minutes)
    if is_services and not is_near(minutes, standing):
        # The service plans this hand-over: whoever changes its plan, the link has no say any more.
        return link.record_outcome(Planned(None, standing, 0, "", own), 0, said)
    if is_near(minutes, standing):
        return link.record_outcome(Planned(None, standing, 0, "", own), again, said)
    # First, so that what stands is known as this link's own whatever ends it now, or where Slurm
    # does not answer.
    said_now = "Slurm has not confirmed this plan yet: " + said
    announce_change(link, Planned(link.successor, minutes, again, said_now, own, (standing,)))
    why = update_dependency(link, minutes, environ)
    if why is None:
        return link.record_outcome(Planned(None, minutes, 0, "", own), again, said)
    return link.record_outcome(Planned(None, standing, 0, "", own), 0, "no plan: %s" % (why,))


def take_plan_back(link, seen, before, why, environ):
    """Make the successor eligible at this link's end again, and say why."""
    standing = find_standing(link, seen, before)
    if standing is not None:
        # First, as in write_plan.
        said = "Slurm has not confirmed yet that the plan is taken back: %s" % (why,)
        announce_change(link, Planned(link.successor, None, 0, said, seen.own, (standing,)))
        refusal = update_dependency(link, None, environ)
        if refusal is not None:
            kept = Planned(None, standing, 0, "", seen.own)
            return link.record_outcome(kept, 0, "the plan stays: %s" % (refusal,))
    return link.record_outcome(NOTHING, 0, "no plan: %s" % (why,))


def announce_change(link, plan):
    """Write down the change that is about to be made, or raise Unseen: of a change that is not
    written down nobody would know that it is this link's own."""
    if not plan.save(link):
        path = link.get_path("plans", link.index)
        raise Unseen("%s cannot be written, so Slurm is not asked for a plan" % (path,))


def is_near(minutes, before):
    if minutes is None or before is None:
        return minutes is before
    return abs(minutes - before) < MOVED_MINUTES


def update_dependency(link, minutes, environ):
    """Change the dependency; None, or in words why the site refuses.

    Raises Unseen where Slurm does not answer: the change may or may not have been made.
    """
    dependency = format_dependency(link.job, minutes)
    why = mirage_jobs.change_dependency(link.successor, dependency, environ)
    if why is not None:
        said = "the site refuses plans: %s\n" % (why,)
        mirage_waits.replace_file(link.get_path("unplanned"), said)
    return why
