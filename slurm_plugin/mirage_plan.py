#!/usr/bin/python3 -IS
"""Plan the release of the next link: write `afterany:P?after:P+N` into the link's dependency.

Slurm then makes the next link eligible N minutes after the start of this link's job P; no program
of Mirage has to run for that. The link asks the service for the lead. If no service answers, the
waits of similar jobs decide. A running link calls this beside its script (carrier_plan.sh) with
NAME=VALUE words; it prints nothing. Exit code 0: the file plans/LINK begins with the instant of the
next planning, or with 0; 3: nothing was planned, look again later.
Standard library, Python 3.6.
"""

import os
import sys

LIMIT_S = 120
HEEDED_S = 86400  # so long a link that was told observe or shadow plans nothing by itself
LATER = 3


def main(argv):
    import signal

    sys.path.insert(0, os.path.dirname(os.path.realpath(argv[0])))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the loop that starts this ignores it
    signal.alarm(LIMIT_S)  # ends this process; the standby stands as it stood
    import mirage_planned

    try:
        link = mirage_planned.Link(dict(word.partition("=")[::2] for word in argv[1:]))
    except (KeyError, ValueError) as error:
        sys.stderr.write("mirage: mirage_plan.py NAME=VALUE...: %s\n" % (error,))
        return 2
    try:
        return plan_release(link, os.environ)
    except Exception as error:
        link.log_once("no plan: %s: %s" % (type(error).__name__, error))
        return LATER


def plan_release(link, environ):
    """One look and at most one change."""
    import mirage_planned

    _register_chain(link, environ)
    company = link.find_company()
    if company is not None:  # while an earlier link runs the next one has no plan
        if not link.read_line("plans", link.index):  # said once
            said = "no plan yet: link %d still runs" % (company,)
            link.record_outcome(mirage_planned.NOTHING, 0, said)
        return LATER
    before = mirage_planned.read_plan(link)
    if link.read_refusal():  # in this chain's life: nobody is asked again
        return link.record_outcome(before, 0, "no plan: %s" % (link.read_refusal(),))
    if link.damage:
        return _drop_plan(link, before, environ, "the chain's carrier is damaged: " + link.damage)
    told = ask_service(link, environ)
    if told.mode in ("observe", "shadow"):
        return _drop_plan(link, before, environ, "the site's Mirage is in mode %s" % (told.mode,))
    if told.answered and not (told.is_planned or (link.wanted.lead_s is not None and told.mode)):
        return _plan_nothing(link, before, environ, told)
    if told.is_planned and link.wanted.lead_s is None:
        return _plan_by_service(link, before, environ, told.lead_s)
    why = link.find_objection(environ)
    if why is not None:
        return _drop_plan(link, before, environ, why)
    return _plan_by_waits(link, before, environ)


def _register_chain(link, environ):
    """Register the chain if no service could be told of it at its submission."""
    body = link.read_line("unregistered")
    if not body or link.asks_nobody:
        return
    import re

    import mirage_client
    import mirage_waits

    try:
        try:
            mirage_client.post_chain(link.chain, body.encode("ascii"), environ)
        except mirage_client.Misread:  # by a service that is older than this plugin
            body = re.sub(', "max_returns": [0-9]', "", body)
            mirage_client.post_chain(link.chain, body.encode("ascii"), environ)
    except mirage_client.ServiceRefused as error:
        said = "the service refuses to register the chain: %s" % (error,)
        mirage_waits.replace_file(link.get_path("not-registered"), said + "\n")
    except Exception:
        return  # nobody there: at the next turn, or by the next link
    else:
        said = "the service has registered the chain"
        link.remove_file("not-registered")
    link.remove_file("unregistered")
    link.log_line(said)


class Told(object):
    """The service's answer; `answered` is false if no service answered.

    `again_s`: after how many seconds it wants to be asked again; None if it does not say.
    `return_costs`: what it says, unchecked, of the costs of a new release (mirage_return.py).
    """

    __slots__ = ("again_s", "answered", "lead_s", "mode", "return_costs", "why")

    def __init__(self, answered, why, mode=None, lead_s=None, again_s=None, return_costs=None):
        self.answered = answered
        self.why = why
        self.mode = mode
        self.lead_s = lead_s
        self.again_s = again_s
        self.return_costs = return_costs

    @property
    def is_planned(self):
        return self.lead_s is not None


def ask_service(link, environ):
    """Ask the service for a plan; if none answers, return its last word on the site's mode."""
    if link.asks_nobody:
        return Told(False, "--mirage-service=none")
    import mirage_client

    path = "%s/%s/next?link=%d" % (mirage_client.PATH, link.chain, link.index)
    try:
        code, body, is_known = mirage_client.fetch_answer(path, environ)
    except Exception as error:  # nobody there, or nobody whom the system vouches for
        mode = link.read_mode(HEEDED_S)
        return Told(False, str(error), mode)
    return parse_answer(link, code, is_known, body)


def parse_answer(link, code, is_known, body):
    """An answer. From whom nobody vouches for, only what keeps the link from planning is taken."""
    if code >= 500:
        return Told(False, "the service answers %d" % (code,), link.read_mode(HEEDED_S))
    if code in (404, 409) and link.wanted.lead_s is not None:
        # A service that is older, or does not follow this chain, has no say on a lead by hand.
        return Told(False, "the service answers %d" % (code,), link.read_mode(HEEDED_S))
    if code != 200:
        return Told(True, "answers %d" % (code,))
    try:
        import json

        said = json.loads(body.decode("utf-8"))
        mode, lead_s = said.get("mode"), said.get("lead_s")
        again_s, costs = int(said["ask_again_s"]), said.get("return_costs")
        bound = said.get("max_returns")
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return Told(True, "gives an unreadable answer")
    is_sound = bound is None or (type(bound) is int and bound >= 0)
    link.record_bound(bound if is_sound else 0)
    if mode in ("observe", "shadow"):
        link.record_mode(mode)
        return Told(True, mode, mode)
    link.remove_file("told_mode")
    if not (is_known and mode == "act"):
        costs = None
    is_lead = isinstance(lead_s, (int, float)) and not isinstance(lead_s, bool)
    if not (is_known and is_lead and 0 <= lead_s < 1 << 31):
        return Told(True, "names no lead", mode, again_s=again_s, return_costs=costs)
    return Told(True, "", mode, int(lead_s), again_s, costs)


def _plan_nothing(link, before, environ, told):
    """Leave things as they are, for a service that names no lead."""
    why = "the service %s" % (told.why,)
    stands = before.minutes is not None and before.own is not None
    if link.jumped and stands:  # too early by now, and nobody here moves it on
        _drop_plan(link, before, environ, why)
        return LATER
    if told.again_s is None:  # what names no instant takes up no turn
        link.record_outcome(before, 0, "no plan: %s" % (why,))
        return LATER
    again = link.schedule_after(told.again_s)
    if stands:  # after the last turn a suspension is looked for until the release
        again = again or before.own.start + 60 * before.minutes
    return link.record_outcome(before, again, "no plan: %s" % (why,))


def _plan_by_waits(link, before, environ):
    """Plan by what is known here."""
    import mirage_forecast
    import mirage_planned
    import mirage_waits

    rows = link.fetch_like_jobs(environ)
    if before.own is not None:
        forecast = link.forecast_wait(rows, before.own)
        if _keep_plan(link, before, link.choose_lead(forecast, before.own), forecast):
            return 0
    seen = _look_at_jobs(link, before, environ)
    if seen is None:
        return 0
    forecast = link.forecast_wait(rows, seen.own)
    kept = mirage_planned.find_kept_plan(link, seen, before)
    if forecast is None and link.wanted.lead_s is None and kept is not None:
        again = link.schedule_before(seen.own.start + 60 * kept)
        plan = mirage_planned.Planned(None, kept, 0, "", seen.own)
        why = mirage_forecast.describe_sample(link.waits_read)
        return link.record_outcome(plan, again, "the plan stays: " + why)
    choice = link.choose_lead(forecast, seen.own)
    is_chosen = link.asks_to_end and link.wanted.lead_s is None  # and not by hand
    is_early = mirage_planned.compute_minutes(seen.own, choice) is not None
    if is_chosen and is_early and mirage_waits.is_alone(link, environ):
        choice = mirage_forecast.Choice(0, choice.price, mirage_forecast.NOBODY_WAITS)
    return mirage_planned.write_plan(link, seen, before, choice, forecast, environ)


def _plan_by_service(link, before, environ, lead_s):
    """Plan by this lead, which is the service's."""
    import mirage_forecast
    import mirage_planned

    choice = mirage_forecast.Choice(lead_s, None, mirage_forecast.SERVICE)
    if before.own is not None and _keep_plan(link, before, choice, None):
        return 0
    seen = _look_at_jobs(link, before, environ, choice)
    if seen is None:
        return 0
    return mirage_planned.write_plan(link, seen, before, choice, None, environ)


def _keep_plan(link, before, choice, forecast):
    """Return whether this turn leaves the plan as it is: then Slurm is not asked.

    The second turn may. So may the third where the lead is the service's, which follows both jobs
    in Slurm's queue itself.
    """
    import mirage_forecast
    import mirage_planned

    minutes = mirage_planned.compute_minutes(before.own, choice)
    turns = (2, 3) if choice.cut == mirage_forecast.SERVICE else (2,)
    is_near = mirage_planned.is_near(minutes, before.minutes)
    if link.turn not in turns or link.jumped or before.was or not is_near:
        return False
    release = before.own.end if minutes is None else before.own.start + 60 * minutes
    said = mirage_forecast.describe_plan(link, choice, forecast, minutes, before.own)
    link.record_outcome(before, link.schedule_before(release), "the plan stays: " + said)
    return True


def _look_at_jobs(link, before, environ, by_service=None):
    """Ask Slurm about the jobs; None if nothing is to be planned, which is written down.

    `by_service`: the Choice that the service names.
    """
    import mirage_planned

    seen = link.look_at_jobs(environ)
    link.record_handover(seen)
    why = mirage_planned.find_hindrance(link, seen, before, by_service)
    if why is None:
        return seen
    if seen.company or seen.own.state == mirage_planned.SUSPENDED:
        raise mirage_planned.Unseen(why)  # for the time being
    link.record_outcome(before, 0, "no plan: %s" % (why,))
    return None


def _drop_plan(link, before, environ, why):
    """Plan nothing; a plan that the link made before is taken back."""
    import mirage_planned

    if any(minutes is not None for minutes in (before.minutes,) + before.was):
        seen = _look_at_jobs(link, before, environ)
        if seen is None:
            return 0
        return mirage_planned.take_plan_back(link, seen, before, why, environ)
    return link.record_outcome(mirage_planned.NOTHING, 0, "no plan: %s" % (why,))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
