"""Plan the release of the next link: write `afterany:P?after:P+N` into the link's dependency.

Slurm then makes the next link eligible N minutes after the start of this link's job P; no program
of Mirage has to run for that. The link asks the service for the lead. If no service answers, the
waits of similar jobs decide. A running link calls this beside its script (carrier/plan.sh) with
NAME=VALUE words; it prints nothing. Exit code 0: the file plans/LINK begins with the time of the
next turn, or with 0 for none; 3: nothing was planned, and the link is to try again later.

Carriers of running chains call mirage_plan.py with these words: neither may change.
Standard library, Python 3.6.
"""

import os
import sys

LIMIT_S = 120
HEEDED_S = 86400  # after mode observe or shadow was stated the link plans nothing for so long
LATER = 3


def main(argv):
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the calling loop ignores SIGALRM
    signal.alarm(LIMIT_S)  # ends this process; the standby stands as it stood
    from mirage_slurm.planner import planned

    try:
        link = planned.Link(dict(word.partition("=")[::2] for word in argv[1:]))
    except (KeyError, ValueError) as error:
        sys.stderr.write("mirage: mirage_plan.py NAME=VALUE...: %s\n" % (error,))
        return 2
    try:
        return plan_release(link, os.environ)
    except Exception as error:
        link.log_once("no plan: %s: %s" % (type(error).__name__, error))
        return LATER


def plan_release(link, environ):
    """Take one turn: at most one question to the service, and at most one change in Slurm."""
    from mirage_slurm.planner import planned

    _register_chain(link, environ)
    earlier_link = link.find_earlier_link()
    if earlier_link is not None:  # while an earlier link runs the next one has no plan
        if not link.read_line("plans", link.index):  # written only once
            sentence = "no plan yet: link %d still runs" % (earlier_link,)
            link.record_outcome(planned.NOTHING, 0, sentence)
        return LATER
    old_plan = planned.read_plan(link)
    if link.read_refusal():  # a refusal counts for the life of the chain
        return link.record_outcome(old_plan, 0, "no plan: %s" % (link.read_refusal(),))
    if link.damage:
        return _drop_plan(link, old_plan, environ, "the chain's carrier is damaged: " + link.damage)
    answer = ask_service(link, environ)
    if answer.mode in ("observe", "shadow"):
        return _drop_plan(
            link, old_plan, environ, "the site's Mirage is in mode %s" % (answer.mode,)
        )
    if answer.has_answered and not (
        answer.is_planned or (link.wishes.lead_s is not None and answer.mode)
    ):
        return _plan_nothing(link, old_plan, environ, answer)
    if answer.is_planned and link.wishes.lead_s is None:
        return _plan_by_service(link, old_plan, environ, answer.lead_s)
    why = link.find_objection(environ)
    if why is not None:
        return _drop_plan(link, old_plan, environ, why)
    return _plan_by_waits(link, old_plan, environ)


def _register_chain(link, environ):
    """Register the chain with the service if that failed at the chain's submission."""
    body = link.read_line("unregistered")
    if not body or link.has_no_service:
        return
    import re

    from mirage_slurm.client import request
    from mirage_slurm.planner import past_waits

    try:
        try:
            request.post_chain(link.chain, body.encode("ascii"), environ)
        except request.Misread:  # the service is older than this plugin
            body = re.sub(', "max_returns": [0-9]', "", body)
            request.post_chain(link.chain, body.encode("ascii"), environ)
    except request.ServiceRefused as error:
        sentence = "the service refuses to register the chain: %s" % (error,)
        past_waits.replace_file(link.get_path("not-registered"), sentence + "\n")
    except Exception:
        return  # no service answers: the next turn or the next link tries again
    else:
        sentence = "the service has registered the chain"
        link.remove_file("not-registered")
    link.remove_file("unregistered")
    link.log_line(sentence)


class ServiceAnswer(object):
    """The service's answer; `has_answered` is false if no service answered.

    `why`: a reason in words if there is no lead. `ask_again_s`: the service wants to be asked again
    after so many seconds; None if it does not say. `return_costs`: the costs of a new release,
    unchecked (give_back.py).
    """

    __slots__ = ("ask_again_s", "has_answered", "lead_s", "mode", "return_costs", "why")

    def __init__(
        self, has_answered, why, mode=None, lead_s=None, ask_again_s=None, return_costs=None
    ):
        self.has_answered = has_answered
        self.why = why
        self.mode = mode
        self.lead_s = lead_s
        self.ask_again_s = ask_again_s
        self.return_costs = return_costs

    @property
    def is_planned(self):
        return self.lead_s is not None


def ask_service(link, environ):
    """Ask the service for a plan; if none answers, return its last word on the site's mode."""
    if link.has_no_service:
        return ServiceAnswer(False, "--mirage-service=none")
    from mirage_slurm.client import request

    path = "%s/%s/next?link=%d" % (request.PATH, link.chain, link.index)
    try:
        code, body, is_known = request.fetch_answer(path, environ)
    except Exception as error:  # no service, or a peer that is not known
        mode = link.read_mode(HEEDED_S)
        return ServiceAnswer(False, str(error), mode)
    return parse_answer(link, code, is_known, body)


def parse_answer(link, code, is_known, body):
    """Parse an answer. Of a peer that is not known only what keeps the link from planning counts."""
    if code >= 500:
        return ServiceAnswer(False, "the service answers %d" % (code,), link.read_mode(HEEDED_S))
    if code in (404, 409) and link.wishes.lead_s is not None:
        # An older service, or one that does not follow this chain, does not forbid --mirage-lead.
        return ServiceAnswer(False, "the service answers %d" % (code,), link.read_mode(HEEDED_S))
    if code != 200:
        return ServiceAnswer(True, "answers %d" % (code,))
    try:
        import json

        document = json.loads(body.decode("utf-8"))
        mode, lead_s = document.get("mode"), document.get("lead_s")
        ask_again_s, costs = int(document["ask_again_s"]), document.get("return_costs")
        bound = document.get("max_returns")
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return ServiceAnswer(True, "gives an unreadable answer")
    is_sound = bound is None or (type(bound) is int and bound >= 0)
    link.record_bound(bound if is_sound else 0)
    if mode in ("observe", "shadow"):
        link.record_mode(mode)
        return ServiceAnswer(True, mode, mode)
    link.remove_file("told_mode")
    if not (is_known and mode == "act"):
        costs = None
    is_lead = isinstance(lead_s, (int, float)) and not isinstance(lead_s, bool)
    if not (is_known and is_lead and 0 <= lead_s < 1 << 31):
        return ServiceAnswer(
            True, "names no lead", mode, ask_again_s=ask_again_s, return_costs=costs
        )
    return ServiceAnswer(True, "", mode, int(lead_s), ask_again_s, costs)


def _plan_nothing(link, old_plan, environ, answer):
    """Leave things as they are, for a service that names no lead."""
    why = "the service %s" % (answer.why,)
    has_plan = old_plan.minutes is not None and old_plan.own is not None
    if link.was_suspended and has_plan:  # the suspension has made the plan too early
        _drop_plan(link, old_plan, environ, why)
        return LATER
    if answer.ask_again_s is None:  # such an answer takes up no turn
        link.record_outcome(old_plan, 0, "no plan: %s" % (why,))
        return LATER
    next_turn_at = link.schedule_after(answer.ask_again_s)
    if has_plan:  # after the last turn go on watching for a suspension until the release
        next_turn_at = next_turn_at or old_plan.own.start + 60 * old_plan.minutes
    return link.record_outcome(old_plan, next_turn_at, "no plan: %s" % (why,))


def _plan_by_waits(link, old_plan, environ):
    """Plan by the waits of similar jobs, or of the chain's own links."""
    from mirage_slurm.planner import lead_rules, past_waits, planned

    rows = link.fetch_like_jobs(environ)
    if old_plan.own is not None:
        forecast = link.forecast_wait(rows, old_plan.own)
        if _keep_plan(link, old_plan, link.choose_lead(forecast, old_plan.own), forecast):
            return 0
    view = _fetch_view(link, old_plan, environ)
    if view is None:
        return 0
    forecast = link.forecast_wait(rows, view.own)
    kept_minutes = planned.find_kept_minutes(link, view, old_plan)
    if forecast is None and link.wishes.lead_s is None and kept_minutes is not None:
        next_turn_at = link.schedule_before(view.own.start + 60 * kept_minutes)
        plan = planned.Plan(None, kept_minutes, 0, "", view.own)
        why = lead_rules.describe_sample(link.waits_count)
        return link.record_outcome(plan, next_turn_at, "the plan stays: " + why)
    choice = link.choose_lead(forecast, view.own)
    is_chosen = link.asks_to_end and link.wishes.lead_s is None  # and not by hand
    is_early = planned.compute_minutes(view.own, choice) is not None
    if is_chosen and is_early and past_waits.is_alone(link, environ):
        choice = lead_rules.Choice(0, choice.price, lead_rules.NOBODY_WAITS)
    return planned.write_plan(link, view, old_plan, choice, forecast, environ)


def _plan_by_service(link, old_plan, environ, lead_s):
    """Plan by the service's lead."""
    from mirage_slurm.planner import lead_rules, planned

    choice = lead_rules.Choice(lead_s, None, lead_rules.SERVICE)
    if old_plan.own is not None and _keep_plan(link, old_plan, choice, None):
        return 0
    view = _fetch_view(link, old_plan, environ, choice)
    if view is None:
        return 0
    return planned.write_plan(link, view, old_plan, choice, None, environ)


def _keep_plan(link, old_plan, choice, forecast):
    """Return whether this turn leaves the plan as it is, without a question to Slurm.

    The second turn may. The third may too if the lead is the service's, because the service follows
    both jobs in Slurm's queue itself.
    """
    from mirage_slurm.planner import lead_rules, planned

    minutes = planned.compute_minutes(old_plan.own, choice)
    turns = (2, 3) if choice.cut_by == lead_rules.SERVICE else (2,)
    is_near = planned.is_near(minutes, old_plan.minutes)
    if link.turn not in turns or link.was_suspended or old_plan.earlier_minutes or not is_near:
        return False
    release = old_plan.own.end if minutes is None else old_plan.own.start + 60 * minutes
    sentence = lead_rules.describe_plan(link, choice, forecast, minutes, old_plan.own)
    link.record_outcome(old_plan, link.schedule_before(release), "the plan stays: " + sentence)
    return True


def _fetch_view(link, old_plan, environ, by_service=None):
    """Ask Slurm about the jobs. Return None if nothing is to be planned, and write down why.

    `by_service`: the Choice that the service names.
    """
    from mirage_slurm.planner import planned

    view = link.fetch_view(environ)
    link.record_handover(view)
    why = planned.find_hindrance(link, view, old_plan, by_service)
    if why is None:
        return view
    if view.earlier_jobs or view.own.state == planned.SUSPENDED:
        raise planned.Unseen(why)  # this may pass
    link.record_outcome(old_plan, 0, "no plan: %s" % (why,))
    return None


def _drop_plan(link, old_plan, environ, why):
    """Plan nothing, and take back a plan that the link made before."""
    from mirage_slurm.planner import planned

    if any(minutes is not None for minutes in (old_plan.minutes,) + old_plan.earlier_minutes):
        view = _fetch_view(link, old_plan, environ)
        if view is None:
            return 0
        return planned.take_plan_back(link, view, old_plan, why, environ)
    return link.record_outcome(planned.NOTHING, 0, "no plan: %s" % (why,))
