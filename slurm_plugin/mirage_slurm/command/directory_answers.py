"""What `--json` prints where no service is known: answers with the keys of the service's own.

A script reads one shape (docs/reference/rest.md). What only a service knows is null. A test
compares the names with those of the service.
"""

import os
import pwd
import re
import time

from mirage_slurm.api import chain_files
from mirage_slurm.api.reports import PENDING, RUNNING
from mirage_slurm.command.instants import to_rfc3339
from mirage_slurm.planner import lead_rules

CHAIN = (
    "chain_id user uid state note actor reason links_planned links_started running policy overlap_price"
    " overlap_price_why total_s max_overlap_s presubmit style mode service_mode at_risk created_at"
    " handovers_done interruption_h overlap_h returns"
).split()
"""The keys of a chain in GET /chains."""
CHAIN_WITH_LINKS = CHAIN + "as_of stale max_returns links handovers expected_start".split()
"""The keys of GET /chains/ID."""
LINK = (
    "index job_id state position partition account nodes time_limit_s unlimited submit eligible freed_at"
    " freed_by planned_release planned_by start end end_state reason hindered returns returned_node_h"
    " planned_start waits_for"
).split()
DECISION = (
    "id at last_at repeats chain_id link mode policy action reason time_left_s forecast release_at effect"
    " error inputs says"
).split()
"""The keys of a row of GET /chains/ID/decisions."""

_AWAITED = re.compile(r"waits for link ([0-9]{1,9})\b")  # in a link's condition, by mirage-link


def build_chain(files, report, queue):
    """Build a row of the list of chains. `queue`: the Queue by which `report` was judged."""
    settings = files.read_settings()
    return _fill(
        CHAIN,
        chain_id=files.id,
        user=_find_own_name(),
        uid=os.geteuid(),
        state=report.state,
        note="; ".join(report.sentences),
        links_planned=_parse_number(settings, "links"),
        links_started=files.count_started(),
        running=_list_running(_find_queued(files, queue)),
        overlap_price=_parse_price(settings),
        total_s=_parse_number(settings, "total"),
        max_overlap_s=_parse_number(settings, "max_overlap"),
        presubmit=settings.get("presubmit") or None,
        style=settings.get("style") or None,
        mode=settings.get("mode") or None,
        created_at=_format_instant(files.read_creation_time()),
    )


def build_chain_with_links(files):
    """Build the answer for one chain. Raises ChainError."""
    queue = chain_files.Queue()
    asked_at = time.time()
    report = files.read_seen_report(queue)
    chain = build_chain(files, report, queue)
    queued = _find_queued(files, queue)
    return _fill(
        CHAIN_WITH_LINKS,
        as_of=None if queued is None else to_rfc3339(asked_at),
        stale=queued is None,
        max_returns=_bound_returns(files.read_settings()),
        links=[_build_link(link, queued) for link in report.links],
        **chain,
    )


def build_decision(chain_id, at, text):
    """Build a row for a line of the chain's log. `at`: epoch seconds."""
    instant = to_rfc3339(at)
    return _fill(DECISION, at=instant, last_at=instant, repeats=0, chain_id=chain_id, reason=text)


def _build_link(link, queued):
    awaited = _AWAITED.match(link.note) if link.state == RUNNING else None
    reasons = [job.reason for job in queued or () if job.job_id == link.job_id]
    return _fill(
        LINK,
        index=link.number,
        job_id=link.job_id,
        state=link.state,
        end_state=link.end_state or None,
        reason=reasons[0] if link.state == PENDING and reasons else None,
        waits_for=int(awaited.group(1)) if awaited else None,
    )


def _fill(names, **facts):
    """Return these facts with null for each other name, in the order of the names."""
    return dict(dict.fromkeys(names), **facts)


def _find_queued(files, queue):
    """Return the chain's jobs in the queue; None if Slurm does not say."""
    try:
        return files.find_queued(queue)
    except chain_files.SlurmFailed:
        return None


def _list_running(queued):
    return None if queued is None else [job.job_id for job in queued if job.state != "PENDING"]


def _find_own_name():
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


def _bound_returns(settings):
    bound = settings.get("max_returns", "")
    return lead_rules.bound_returns(settings.get("returns", ""), [bound])


def _parse_number(settings, name):
    return lead_rules.parse_whole(settings.get(name, ""))


def _parse_price(settings):
    try:
        return float(settings.get("price", ""))
    except ValueError:
        return None


def _format_instant(seconds):
    return None if seconds is None else to_rfc3339(seconds)
