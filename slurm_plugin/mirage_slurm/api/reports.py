"""How a chain stands: by the service's answer, or by `mirage-link status` and the queue.

Each reader here turns one of these answers into a Report. None of them asks anybody.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

ACTIVE, PAUSED, FINISHED, CANCELLED, FAILED = "active paused finished cancelled failed".split()
PENDING, RUNNING, ENDED = "pending running ended".split()
MARKERS = ("done", "stop", "paused")
ABSENT, REQUEUED = "not in the queue", "requeued"  # conditions in mirage-link status
BY_USER = "by "  # a `stop` that somebody wrote with mirage-link begins so


class Link(NamedTuple):
    """A link of a chain.

    `number` counts from 1. `job_id` is None where nobody knows the job. `state` is pending, running
    or ended. `end_state` is Slurm's word for the end (COMPLETED, TIMEOUT, ...); it is empty before the
    end, and where nobody knows. `note` says the same in words, and why the link waits.
    """

    number: int
    job_id: Optional[int]
    state: str
    end_state: str
    note: str


class Report(NamedTuple):
    """How a chain stands. `sentences` say why, and what a user can do about it."""

    state: str
    links: List[Link]
    sentences: List[str]


class Queued(NamedTuple):
    """A job of a chain in the queue. `state` and `reason` are squeue's words."""

    number: int  # of the link
    job_id: int
    state: str
    reason: str


def is_alive(link: Link) -> bool:
    return link.state != ENDED


# --- the service's answer ------------------------------------------------------------------------


def read_answer(answer: Dict[str, Any]) -> Optional[Report]:
    """Read the answer of GET /chains/ID. Return None if it knows less than the chain's own files do.

    That is so before the service has seen a link, and when it has not read the queue lately. Raises
    KeyError, TypeError or ValueError for a body of another form.
    """
    if answer["stale"] or not answer["links"]:
        return None
    risk, start = answer["at_risk"], answer["expected_start"]
    sentences = [answer["note"]] if answer["note"] and risk is None else []
    if risk is not None:
        sentences.append("at risk: %s. %s" % (risk["says"], risk["advice"]))
    if start is not None:
        sentences.append("link %d is expected to start at %s" % (start["link"], start["at"]))
    links = [_read_link(link) for link in answer["links"]]
    return Report(str(answer["state"]), links, [str(text) for text in sentences])


def _read_link(link: Dict[str, Any]) -> Link:
    if link["waits_for"] is not None:
        note = "waits for link %d" % (link["waits_for"],)
    elif link["state"] == PENDING:
        note = "%s (%s)" % (link["position"], link["reason"])
    else:
        note = str(link["end_state"] or link["state"])
    return Link(
        int(link["index"]), int(link["job_id"]), str(link["state"]), link["end_state"] or "", note
    )


# --- mirage-link status, and the queue -----------------------------------------------------------


class Status(NamedTuple):
    """The lines of `mirage-link status CHAIN`, apart."""

    links: List[Link]
    lines: Dict[str, str]  # by name: plan, done, stop, paused, service


def read_status(text: str) -> Status:
    """Read the output of `mirage-link status CHAIN`. A line of another form is left out."""
    links, lines = [], {}
    for line in text.split("\n"):
        name, tab, rest = line.partition("\t")
        if tab and name.startswith("link "):
            job, _, condition = rest.partition("\t")
            digits, job_digits = name[len("link ") :], job.partition(" ")[2]
            if digits.isdigit():
                job_id = int(job_digits) if job_digits.isdigit() else None
                links.append(_read_condition(int(digits), job_id, condition))
        elif tab:
            lines[name] = rest
    return Status(links, lines)


def _read_condition(number: int, job_id: Optional[int], condition: str) -> Link:
    """Return the link of one line; `describe_link` in mirage-link writes the conditions."""
    state, end_state = ENDED, ""
    if condition.startswith(("running", "suspended", "waits for ")):
        state = RUNNING
    elif condition.startswith(("standby", "requeued, ")):
        state = PENDING
    elif condition.startswith("exit "):
        end_state = "COMPLETED" if condition == "exit 0" else "FAILED"
    elif not condition.startswith(("ended without a word", ABSENT, REQUEUED)):
        end_state = condition.partition(" ")[0].upper()  # "cancelled by alice"
    return Link(number, job_id, state, end_state, condition)


class Row(NamedTuple):
    """A line of `mirage-link status` without a chain."""

    chain_id: str
    script: str
    begun: int  # the last link that has begun; 0: none
    planned: Optional[int]  # None: nobody knows how many links
    condition: str  # of that link, or a marker and its text


def read_rows(text: str) -> List[Row]:
    """Read the output of `mirage-link status`. A line of another form is left out."""
    fields = [line.split("\t", 3) for line in text.split("\n")]
    rows = [_read_row(*four) for four in fields if len(four) == 4]
    return [row for row in rows if row is not None]


def _read_row(chain_id: str, script: str, links: str, condition: str) -> Optional[Row]:
    begun, _, planned = links[len("link ") :].partition(" of ")
    if not links.startswith("link ") or not begun.isdigit():
        return None
    number = int(planned) if planned.isdigit() else None
    return Row(chain_id, script, int(begun), number, condition)


def build_status(row: Row, end: str) -> Status:
    """Build what a row says of its chain. `end`: how its last link ended, by the chain's files; "" for
    a link that has not ended."""
    name, colon, text = row.condition.partition(": ")
    if not colon or name not in MARKERS:
        return Status([_read_condition(max(1, row.begun), None, row.condition)], {})
    # The row does not say whether the link still runs; then it has a job in the queue.
    condition = end or "ended without a word"
    links = [_read_condition(row.begun, None, condition)] if row.begun else []
    return Status(links, {name: text})


def add_queued(links: Sequence[Link], queued: Sequence[Queued]) -> List[Link]:
    """Return the links with those that are in the queue, though the chain's files name them as ended
    or not at all. A link writes down its end while its job still sees to the next link."""
    merged = {link.number: link for link in links}
    for number, job, state, reason in queued:
        link = merged.get(number)
        if link is None or link.note.startswith((ABSENT, REQUEUED)):
            merged[number] = _make_queued(number, job, state, reason)
        elif not is_alive(link):
            merged[number] = Link(number, job, RUNNING, "", "about to end (%s)" % (link.note,))
    return [merged[number] for number in sorted(merged)]


def _make_queued(number: int, job: int, state: str, reason: str) -> Link:
    if state != "PENDING":
        return Link(number, job, RUNNING, "", "about to begin")
    note = "in the queue" if reason in ("None", "Dependency") else "in the queue (%s)" % (reason,)
    return Link(number, job, PENDING, "", note)


def judge_status(chain_id: str, status: Status, planned: Optional[int]) -> Report:
    """Judge a chain by its own files and the queue.

    `planned`: how many links it was submitted with; None where that is not known.
    """
    lines = status.lines
    reason = next((name for name in MARKERS if name in lines), "")
    sentences = ["%s: %s" % (name, lines[name]) for name in MARKERS if lines.get(name)]
    if "service" in lines:
        sentences.append("the service refuses the chain: %s" % (lines["service"],))
    if "plan" in lines:
        sentences.append(lines["plan"])
    if reason == "paused":
        sentences.append("once the cause is removed: mirage-link resume %s" % (chain_id,))
        return Report(PAUSED, status.links, sentences)
    if any(map(is_alive, status.links)):
        return Report(ACTIVE, status.links, sentences)
    if reason == "done":
        return Report(FINISHED, status.links, sentences)
    if reason == "stop":
        return Report(_judge_stop(status), status.links, sentences)
    state, sentence = _judge_unmarked(chain_id, status.links, planned)
    return Report(state, status.links, sentences + [sentence])


def judge_unseen(chain_id: str, status: Status, planned: Optional[int], complaint: str) -> Report:
    """Judge a chain by its own files alone, because Slurm does not say what is in the queue.

    No answer never means that a job is gone. `complaint`: what Slurm says instead.
    """
    report = judge_status(chain_id, status, planned)
    if report.state == FINISHED or any(name in status.lines for name in MARKERS):
        return report._replace(sentences=report.sentences + [complaint])
    return Report(ACTIVE, status.links, [complaint])


def _judge_stop(status: Status) -> str:
    """Return the state of a stopped chain: its user's word, or the end after which it does not go on."""
    ends = [link.end_state for link in _list_begun(status.links)]
    last = ends[-1] if ends else ""
    if status.lines["stop"].startswith(BY_USER) or last in ("", "CANCELLED"):
        return CANCELLED
    return FINISHED if last == "COMPLETED" else FAILED


def _judge_unmarked(
    chain_id: str, links: Sequence[Link], planned: Optional[int]
) -> Tuple[str, str]:
    """Return the state of a chain that has no job in the queue and no marker, and why, as a pair."""
    begun = _list_begun(links)
    if not begun:
        return CANCELLED, "the chain's first job left the queue before it began"
    if planned is not None and begun[-1].number >= planned:
        return FINISHED, "all %d links have run; nobody said that the work is done" % (planned,)
    return FAILED, (
        "no job of the chain is left in the queue after link %d. To submit the next link:"
        " mirage-link resume %s" % (begun[-1].number, chain_id)
    )


def _list_begun(links: Sequence[Link]) -> List[Link]:
    """List the links that have begun, of a chain that has no job in the queue."""
    return [link for link in links if not link.note.startswith(ABSENT)]
