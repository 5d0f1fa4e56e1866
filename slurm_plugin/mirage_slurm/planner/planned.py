"""A running link and its plan for the next link: read both jobs from Slurm, write the plan.

Standard library, Python 3.6.
"""

import os
import time

from mirage_slurm.client import service
from mirage_slurm.client.duration import parse_duration
from mirage_slurm.planner import lead_rules, past_waits, slurm_jobs
from mirage_slurm.planner.slurm_jobs import ENDED, RUNS, Row, Unseen

OWN_PLANS, NO_PLANS = "own", "never"  # client.conf: plans = own | never
WAITS = frozenset(["PENDING"])
SUSPENDED = "SUSPENDED"
BEATS = 3  # a heartbeat younger than so many periods means that its link runs (carrier/guard.sh)
LEAST_LEAD_S = 60
MOVED_MINUTES = 6  # a plan that would move by less stays: at most a tenth of an hour is at stake


class QueueView(object):
    """The queue at one instant: the Rows of this link and its successor, and the jobs of earlier
    links that still run."""

    __slots__ = ("earlier_jobs", "own", "successor")

    def __init__(self, own, successor, earlier_jobs):
        self.own = own
        self.successor = successor
        self.earlier_jobs = earlier_jobs


class Link(object):
    """The running link, from the NAME=VALUE words of its carrier."""

    def __init__(self, words):
        self.now = int(time.time())
        self.chain, self.directory, self.job = words["chain"], words["dir"], int(words["job"])
        self.index, self.turn = int(words["link"]), int(words["turn"])
        self.was_suspended = words.get("jumped") == "1"  # since the last turn
        damage = []
        self.beat_s = lead_rules.parse_setting(words, "beat_s", damage) or 60
        min_runtime_s = lead_rules.parse_setting(words, "min_runtime", damage)
        self.min_runtime_s = lead_rules.MIN_RUNTIME_S if min_runtime_s is None else min_runtime_s
        self.partition, self.qos = words.get("partition", ""), words.get("qos", "")
        self.has_no_service = words.get("service") == "none"
        self.plans = words.get("plans") or OWN_PLANS  # by client.conf at the submission
        self.max_lead = words.get("max_lead", "")
        self.returns = words.get("returns", "")
        self.max_returns = words.get("max_returns", "")
        self.wishes = lead_rules.Wishes(
            words["style"],
            price=lead_rules.parse_price(words, damage),
            max_overlap_s=lead_rules.parse_setting(words, "max_overlap", damage),
            lead_s=lead_rules.parse_setting(words, "lead", damage),
        )
        self.asks_to_end = self.wishes.style in lead_rules.ASKING
        self.damage = ", ".join(damage)  # in words; then the link plans nothing
        self.successor = _parse_whole(self.read_line("jobs", self.index + 1))
        self.waits_count = 0  # past waits of the partition that the last forecast had

    def read_line(self, *names):
        return past_waits.read_own_line(self.get_path(*names), self.now)

    def get_path(self, *names):
        return os.path.join(self.directory, *[str(name) for name in names])

    def log_once(self, sentence):
        """Log the sentence unless it is this link's last line: a lasting trouble is logged once."""
        mark = " link %d job %d: " % (self.index, self.job)
        own = [line for line in past_waits.read_end(self.get_path("log")) if mark in line]
        if not own or own[-1].partition(mark)[2] != sentence:
            self.log_line(sentence)

    def log_line(self, sentence):
        line = "%d link %d job %d: %s\n" % (self.now, self.index, self.job, sentence)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            with os.fdopen(os.open(self.get_path("log"), flags, 0o600), "w") as file:
                file.write("".join(c if c.isprintable() or c == "\n" else "?" for c in line))
        except OSError:
            pass

    # What keeps the link from planning.

    def list_earlier_links(self):
        """Return (link, job) for earlier links that have begun and have written no end. Only the last
        fifty links are looked at."""
        running = []
        for index in range(max(1, self.index - 50), self.index):
            begun = os.path.exists(self.get_path("started", index))
            if begun and not os.path.exists(self.get_path("ends", index)):
                job = _parse_whole(self.read_line("jobs", index))
                running += [(index, job)] if job else []
        return running

    def find_earlier_link(self):
        """Return an earlier link that still runs, by files alone, without a question to Slurm; else
        None.

        A link whose heartbeat stands still may be gone: fetch_view asks Slurm about it.
        """
        for index, _ in self.list_earlier_links():
            until = _parse_whole(self.read_line("deadline", index))
            beat = _parse_whole(self.read_line("beat", index))
            is_alive = beat is not None and self.now - beat < BEATS * self.beat_s
            if is_alive and (until is None or self.now < until + 300):
                return index
        return None

    def find_objection(self, environ):
        """Return why this link plans nothing by itself; None if it may. Sets the admin's bounds in
        `wishes`: of two values of client.conf, at the submission and here, the smaller counts."""
        for plans in (self.plans, service.read_configured("plans", environ) or OWN_PLANS):
            if plans != OWN_PLANS:
                return "plans = %s in client.conf" % ("".join(filter(str.isalnum, plans)),)
        texts = [self.max_lead, service.read_configured("max_lead", environ)]
        bounds_s = [parse_duration(text) for text in texts if text]
        if None in bounds_s:
            return "max_lead in client.conf is not a time like 2:00:00"
        self.wishes.max_lead_s = min(bounds_s) if bounds_s else None
        self.wishes.returns = self.bound_returns(environ)
        return None

    def bound_returns(self, environ):
        """Return how often a link may give its nodes back: by client.conf where the chain was
        submitted and here, and by the service's last word. None: some number does not read."""
        configured = service.read_configured("max_returns", environ)
        bounds = [self.max_returns, configured, self.read_line("told_returns")]
        return lead_rules.bound_returns(self.returns, bounds)

    def read_refusal(self):
        """Return the site's words if it refused a plan of this chain: it is not asked again."""
        return self.read_line("unplanned")

    # The site's mode, as the service last stated it.

    def record_mode(self, mode):
        past_waits.replace_file(self.get_path("told_mode"), "%s %d\n" % (mode, self.now))

    def record_bound(self, returns):
        """Write down the service's bound on returns, which holds until it names another; None: it
        names none."""
        if returns is not None:
            past_waits.replace_file(self.get_path("told_returns"), "%d\n" % (returns,))
        elif self.read_line("told_returns"):
            self.remove_file("told_returns")

    def remove_file(self, name):
        try:
            os.unlink(self.get_path(name))
        except OSError:
            pass

    def read_mode(self, valid_s):
        mode, _, at = self.read_line("told_mode").partition(" ")
        told_at = lead_rules.parse_whole(at)
        is_recent = told_at is not None and 0 <= self.now + past_waits.CLOCK_S - told_at < valid_s
        return mode if is_recent and mode in ("observe", "shadow") else None

    # What the link knows of waits.

    def fetch_like_jobs(self, environ):
        if not self.partition:
            return []
        return past_waits.read_like_jobs(self.partition, self.qos, self.job, environ, self.now)

    def forecast_wait(self, rows, own):
        """Forecast the wait by similar jobs, else by the chain's own hand-overs; None: too little is
        known. `own`: this link's Row; the successor has the same nodes and time limit."""
        self.waits_count = len(rows)
        price = lead_rules.PRICE if self.wishes.price is None else self.wishes.price
        last = lead_rules.LAST
        if self.wishes.style == "switch":
            last = lead_rules.LAST_SWITCHING
        forecast = lead_rules.forecast_like_jobs(rows, own.nodes or 1, own.limit_s, price, last)
        if forecast is not None:
            return forecast
        handovers = past_waits.read_handovers(self.directory, self.index, self.now)
        return lead_rules.forecast_handovers([wait for _, _, wait in handovers])

    def choose_lead(self, forecast, own):
        measured_s = past_waits.compute_start_up(self.directory, self.index, self.now)
        start_up_s = lead_rules.START_UP_S if measured_s is None else measured_s
        longest_s = past_waits.compute_longest_lead(self, own, start_up_s)
        wishes = self.wishes
        return lead_rules.choose_lead(forecast, own.limit_s, start_up_s, wishes, longest_s)

    def record_handover(self, view):
        """Write down this link's own hand-over, once."""
        own = view.own
        is_recorded = os.path.exists(self.get_path("waited", self.index))
        if self.index == 1 or own.eligible is None or is_recorded:
            return
        end = _parse_whole(self.read_line("deadline", self.index - 1)) or own.eligible
        wait_s = max(0, own.start - own.eligible)
        past_waits.record_handover(
            self.directory, self.index, own.start, end - own.eligible, wait_s
        )

    def fetch_view(self, environ):
        """Ask Slurm for a QueueView. Raises Unseen unless squeue shows both jobs."""
        if self.successor is None:
            raise Unseen("the next link is not in the queue yet")
        others = [job for _, job in self.list_earlier_links()]
        rows = slurm_jobs.fetch_rows([self.job, self.successor] + others, environ)
        own = rows.get(self.job)
        if own is None or self.successor not in rows:
            raise Unseen("squeue does not show jobs %d and %d" % (self.job, self.successor))
        earlier_jobs = [
            job for job in others if job in rows and rows[job].state not in ENDED | WAITS
        ]
        if own.start is None:
            raise Unseen("squeue does not show when job %d started" % (self.job,))
        return QueueView(own, rows[self.successor], earlier_jobs)

    # When to plan again, and what is written down.

    def schedule_after(self, seconds):
        """Return the time of the next turn, at least a minute away; 0 if this turn is the last."""
        return self.now + max(60, seconds) if self.turn < TURNS else 0

    def schedule_before(self, release):
        """Return the time of the next turn, three quarters of the way to the release: more is known
        then. At the last turn return the release: only a suspended job plans again before that."""
        if release <= self.now:
            return 0
        return self.schedule_after(3 * (release - self.now) // 4) or release

    def record_outcome(self, plan, next_turn_at, sentence):
        """Write the plan and the sentence down for the next turn, and log the sentence. Returns 0,
        the program's exit code."""
        Plan(
            self.successor, plan.minutes, next_turn_at, sentence, plan.own, plan.earlier_minutes
        ).save(self)
        self.log_line(sentence)
        return 0


TURNS = 3


def _parse_whole(text):
    return lead_rules.parse_whole(text or "")


# --- the plan: plans/LINK, a line for programs and a line for people -----------------------------------


class Plan(object):
    """The plan that this link wrote into its successor's dependency.

    `minutes`: after this link's start; None: no plan. `earlier_minutes`: those of the dependency
    before the last change, if it is not known whether Slurm has taken the change.
    """

    __slots__ = ("earlier_minutes", "job", "minutes", "next_turn_at", "own", "sentence")

    def __init__(self, job, minutes, next_turn_at, sentence, own=None, earlier_minutes=()):
        self.job = job
        self.minutes = minutes
        self.next_turn_at = next_turn_at
        self.sentence = sentence
        self.own = own  # this link's Row when the plan was made
        self.earlier_minutes = earlier_minutes

    def save(self, link):
        """Write plans/LINK. Return whether it could be written."""
        own = self.own
        own_numbers = (own.nodes, own.start, own.end) if own is not None else (None,) * 3
        numbers = (
            (self.next_turn_at, self.job, self.minutes) + own_numbers + tuple(self.earlier_minutes)
        )
        words = ["-" if number is None else str(number) for number in numbers]
        text = "%s\n%s\n" % (" ".join(words), self.sentence)
        return past_waits.replace_file(link.get_path("plans", link.index), text)


NOTHING = Plan(None, None, 0, "")


def read_plan(link):
    """Read the plan for this very job; return NOTHING if another job stands there now."""
    words = link.read_line("plans", link.index).split(" ")
    if len(words) not in (6, 7) or link.successor is None or words[1] != str(link.successor):
        return NOTHING
    minutes, nodes, start, end = map(_parse_whole, words[2:6])
    own = Row(RUNS, "", None, start, end, nodes) if start is not None and end is not None else None
    return Plan(link.successor, minutes, 0, "", own, tuple(map(_parse_whole, words[6:])))


def format_dependency(job, minutes):
    """Return a dependency that is met when `job` has ended, or `minutes` after its start; None: only
    when it has ended."""
    plain = "afterany:%d" % (job,)
    return plain if minutes is None else "%s?after:%d+%d" % (plain, job, minutes)


def find_hindrance(link, view, old_plan, by_service=None):
    """Return why the successor's dependency is not to be touched now; None if it may be.

    `by_service`: the Choice that the service names; the service may have written that plan itself.
    """
    own, successor = view.own, view.successor
    if own.state != RUNS:
        return "job %d is %s" % (link.job, own.state)
    if own.end is None:
        return "job %d has no time limit" % (link.job,)
    if view.earlier_jobs:
        return "job %d of an earlier link still runs" % (view.earlier_jobs[0],)
    if os.path.exists(link.get_path("requeued", link.index + 1)):
        return "the next link has already started too early once"
    if os.path.exists(link.get_path("returns", link.index + 1)):
        return "the next link has given its nodes back, with a release of its own"
    if successor.state != "PENDING":
        return "the next link, job %d, is %s" % (link.successor, successor.state)
    if any(
        has_planned_dependency(link, view, minutes)
        for minutes in (old_plan.minutes,) + old_plan.earlier_minutes
    ):
        return None
    if by_service is not None and has_planned_dependency(
        link, view, compute_minutes(own, by_service)
    ):
        return None
    if is_released(link, view, old_plan):
        return "Slurm has released the next link, job %d, by the plan" % (link.successor,)
    return (
        "somebody else changed the dependency of job %d (you, an admin, or the service),"
        " so the link leaves it alone" % (link.successor,)
    )


def has_planned_dependency(link, view, minutes):
    """Return whether the successor has the dependency of a plan with these minutes."""
    dependency = view.successor.dependency.replace("(unfulfilled)", "")
    return dependency == format_dependency(link.job, minutes)


def is_released(link, view, old_plan):
    """Return whether the successor waits for nothing any more, and one of this link's plans is due."""
    plans = [
        minutes for minutes in (old_plan.minutes,) + old_plan.earlier_minutes if minutes is not None
    ]
    is_due = any(link.now >= view.own.start + 60 * minutes for minutes in plans)
    return is_due and view.successor.dependency in ("", "(null)")


def find_standing_minutes(link, view, old_plan):
    """Return the minutes of this link's own plan that Slurm has: it may not have taken the last
    change."""
    for minutes in (old_plan.minutes,) + old_plan.earlier_minutes:
        if has_planned_dependency(link, view, minutes):
            return minutes
    return old_plan.minutes  # the dependency is the service's


def find_kept_minutes(link, view, old_plan):
    """Return the minutes of the plan that Slurm has, if it is still within its bounds; else None.

    A link that knows nothing has no reason to take back what a service or the link itself planned.
    """
    minutes = find_standing_minutes(link, view, old_plan)
    if minutes is None or old_plan.own is None or old_plan.own.limit_s != view.own.limit_s:
        return None
    most_s = link.wishes.max_lead_s
    lead_s = view.own.limit_s - 60 * minutes
    return minutes if most_s is None or lead_s <= most_s else None


def compute_minutes(own, choice):
    """Return the release of this lead in minutes after the link's start; None: at the end.

    Minutes are rounded up, so that the next link is never earlier than it may be.
    """
    if choice.lead_s < LEAST_LEAD_S:
        return None
    return max(1, -((own.start + choice.lead_s - own.end) // 60))


def write_plan(link, view, old_plan, choice, forecast, environ):
    """Plan the release by this lead. A plan that would move by little stays as it is."""
    own, minutes = view.own, compute_minutes(view.own, choice)
    sentence = lead_rules.describe_plan(link, choice, forecast, minutes, own)
    next_turn_at = link.schedule_before(own.end if minutes is None else own.start + 60 * minutes)
    if choice.cut_by == lead_rules.NOBODY_WAITS:  # a job may come and wait
        next_turn_at = link.schedule_after((own.end - link.now) // 2) or own.end
    standing_minutes = find_standing_minutes(link, view, old_plan)
    is_services = choice.cut_by == lead_rules.SERVICE and has_planned_dependency(
        link, view, minutes
    )
    if is_services and not is_near(minutes, standing_minutes):
        # The service plans this hand-over. If anybody changes its plan, this link leaves that alone.
        return link.record_outcome(Plan(None, standing_minutes, 0, "", own), 0, sentence)
    if is_near(minutes, standing_minutes):
        return link.record_outcome(Plan(None, standing_minutes, 0, "", own), next_turn_at, sentence)
    # Written before the change: if the link is ended now, or Slurm does not answer, the dependency is
    # still known as this link's own.
    unconfirmed = "Slurm has not confirmed this plan yet: " + sentence
    announce_change(
        link, Plan(link.successor, minutes, next_turn_at, unconfirmed, own, (standing_minutes,))
    )
    why = update_dependency(link, minutes, environ)
    if why is None:
        return link.record_outcome(Plan(None, minutes, 0, "", own), next_turn_at, sentence)
    return link.record_outcome(Plan(None, standing_minutes, 0, "", own), 0, "no plan: %s" % (why,))


def take_plan_back(link, view, old_plan, why, environ):
    """Make the successor eligible at this link's end again, and say why."""
    standing_minutes = find_standing_minutes(link, view, old_plan)
    if standing_minutes is not None:
        # Written before the change, as in write_plan.
        sentence = "Slurm has not confirmed yet that the plan is taken back: %s" % (why,)
        announce_change(
            link, Plan(link.successor, None, 0, sentence, view.own, (standing_minutes,))
        )
        refusal = update_dependency(link, None, environ)
        if refusal is not None:
            kept_plan = Plan(None, standing_minutes, 0, "", view.own)
            return link.record_outcome(kept_plan, 0, "the plan stays: %s" % (refusal,))
    return link.record_outcome(NOTHING, 0, "no plan: %s" % (why,))


def announce_change(link, plan):
    """Write down the change that is about to be made, or raise Unseen. Without that nobody would
    know that the changed dependency is this link's own."""
    if not plan.save(link):
        path = link.get_path("plans", link.index)
        raise Unseen("%s cannot be written, so Slurm is not asked for a plan" % (path,))


def is_near(minutes, old_minutes):
    """Return whether two plans differ by too little for a change; None: no plan."""
    if minutes is None or old_minutes is None:
        return minutes is old_minutes
    return abs(minutes - old_minutes) < MOVED_MINUTES


def update_dependency(link, minutes, environ):
    """Change the successor's dependency. Return None, or the site's refusal in words; after a refusal
    the chain asks for no plan again.

    Raises Unseen if Slurm does not answer: the change may or may not have been made.
    """
    dependency = format_dependency(link.job, minutes)
    why = slurm_jobs.change_dependency(link.successor, dependency, environ)
    if why is not None:
        text = "the site refuses plans: %s\n" % (why,)
        past_waits.replace_file(link.get_path("unplanned"), text)
    return why
