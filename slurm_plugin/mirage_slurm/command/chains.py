"""`mirage chain`: submits, shows and changes chains, and explains what Mirage did to them.

A service answers if there is one. Else the chain's directory and Slurm answer for the user's own chains
(`from_directory`).
"""

import os
import sys

from mirage_slurm.client import chain_lookup, rest, service
from mirage_slurm.client.printable import escape_unprintable
from mirage_slurm.client.rest import BadInput, CommandError, ServiceClient
from mirage_slurm.command import chain_text, plugin_path
from mirage_slurm.command import terminal as screen
from mirage_slurm.command.timeline_rows import build_timeline
from mirage_slurm.command.timeline_text import draw_lines

_LOOK = "`squeue --me -O JobID,State,Reason,Comment` shows your links (mirage:<chain>:<link>)."


def run_command(verb, values):
    """Run `mirage chain VERB` and return the exit code. `values`: its options by name. Raises CommandError."""
    if verb == "submit":
        return _submit(values)
    if not _is_service_expected(values["url"]):
        # Here, because it loads the api, which is not needed where a service answers.
        from mirage_slurm.command import from_directory

        return from_directory.run_command(verb, values)
    run, substitute = _VERBS[verb]
    return run(ServiceClient(rest.resolve_service_url(values["url"]), substitute), values)


def _is_service_expected(url):
    """Return whether somebody named a service, or the package's service is on this host."""
    return bool(rest.find_configured_url(url)) or os.path.exists(
        service.DEFAULT_URL[len(service.UNIX) :]
    )


def _submit(values):
    wrapper = os.path.join(plugin_path.get_plugin_folder(), "sbatch")
    rest_words = values["rest"]
    if not rest_words:
        raise BadInput(
            "there is nothing to submit: give sbatch's options and a script, as in "
            "`mirage chain submit --links 8 -t 48:00:00 job.sh`"
        )
    if not os.path.exists(wrapper):
        raise BadInput(
            "the wrapped sbatch is not at %s: this installation is incomplete, install Mirage again"
            % (wrapper,)
        )
    if values["links"] is None:
        if "--links" in rest_words:
            raise BadInput(
                "--links stands after %s: give --links first, then sbatch's options"
                % (rest_words[0],)
            )
        raise BadInput("the number of links is missing: `mirage chain submit --links 8 ...`")
    options = ["--mirage-chain=%d" % (values["links"],)]
    options += [
        "--mirage-%s=%s" % (name.replace("_", "-"), values[name])
        for name in ("policy", "overlap_price")
        if values[name] is not None
    ]
    # Run by this Python: /usr/bin/python3, which the wrapper's first line names, may be missing.
    command = [sys.executable, "-IS", wrapper] + options + rest_words
    sys.stdout.flush()
    return os.execv(command[0], command)  # noqa: S606 - an argument vector


def _list(client, values):
    owner = chain_lookup.get_own_name() if values["me"] else values["user"]
    rows = list(client.iter_items("/chains", values["limit"], user=owner, state=values["state"]))
    if values["json"]:
        return screen.print_json(rows)
    if not rows:
        screen.print_text("no chains of %s" % (owner,) if owner else "no chains")
        return 0
    terminal = screen.find_terminal(os.environ)
    for line in chain_text.render_chain_table(rows, terminal):
        screen.print_line(line, terminal)
    for note in chain_text.list_chain_notes(rows):
        screen.print_text(escape_unprintable(note))
    return 0


def _show(client, values):
    chain_id = _choose_chain_id(client, values["chain"])
    chain = client.get("/chains/" + chain_id)
    if values["json"]:
        return screen.print_json(chain)
    terminal = screen.find_terminal(os.environ)
    timeline = build_timeline(
        client.get("/chains/%s/timeline" % (chain_id,)), newest=values["links"]
    )
    _print_lines(chain_text.render_chain_table([chain], terminal), terminal)
    _print_sentences(chain_text.list_sentences_before(chain), terminal)
    _print_lines(draw_lines(timeline, terminal.width, terminal.ascii_only), terminal)
    _print_lines(chain_text.render_links(chain["links"], terminal), terminal)
    _print_sentences(chain_text.list_sentences_after(chain), terminal)
    if chain["handovers"]:
        _print_lines(chain_text.render_handovers(chain["handovers"], terminal), terminal)
    _print_sentences([chain_text.describe_service_state(chain, client.get("/mode"))], terminal)
    return 0


def _print_lines(lines, terminal):
    for line in lines:
        screen.print_line(line, terminal)


def _print_sentences(sentences, terminal):
    for sentence in sentences:
        screen.print_wrapped(escape_unprintable(sentence), terminal)


def _explain(client, values):
    chain_id = _choose_chain_id(client, values["chain"])
    rows = list(client.iter_items("/chains/%s/decisions" % (chain_id,), values["limit"]))
    if values["json"]:
        return screen.print_json(rows)
    chain = client.get("/chains/" + chain_id)
    for describe in (chain_text.describe_price, chain_text.list_warnings):
        for sentence in describe(chain):
            screen.print_text(escape_unprintable(sentence) + "\n")
    if rows:
        screen.print_text("\n\n".join(chain_text.format_decision(row) for row in rows))
    else:
        screen.print_text(
            "no decisions yet: Mirage decides once a link runs and the next link is in the queue"
        )
    return 0


def _pause(client, values):
    return _request_change(client, values, "pause")


def _cancel(client, values):
    return _request_change(client, values, "cancel")


def _request_change(client, values, action):
    chain_id = chain_lookup.resolve_chain_id(client, values["chain"])
    return _print_state(client.post("/chains/%s/%s" % (chain_id, action)), values["json"])


def _resume(client, values):
    chain_id = chain_lookup.resolve_chain_id(client, values["chain"])
    old_chain = client.get("/chains/" + chain_id)
    chain = client.post("/chains/%s/resume" % (chain_id,))
    # The service answers 403 if the caller may not change this chain. A chain that was active
    # already has not changed, so the command must not report success.
    if old_chain["state"] == "active":
        raise CommandError(
            "chain %s is active already; `mirage-link resume CHAIN` resumes a chain that paused itself "
            "after failed links" % (chain["chain_id"],)
        )
    return _print_state(chain, values["json"])


def _print_state(chain, as_json):
    if as_json:
        return screen.print_json(chain)
    delay_note = (
        "; this may take a while, since Mirage has not read the queue lately"
        if chain["stale"]
        else ""
    )
    sentence = "chain %s is %s: Mirage tells Slurm at its next look at the queue%s" % (
        chain["chain_id"],
        chain["state"],
        delay_note,
    )
    screen.print_text(escape_unprintable(sentence))
    return 0


def _choose_chain_id(client, words):
    return (
        chain_lookup.resolve_chain_id(client, words)
        if words
        else chain_lookup.pick_newest_chain(client)
    )


_VERBS = {
    "list": (_list, _LOOK),
    "show": (_show, _LOOK),
    "explain": (_explain, "Mirage decides nothing until it is back."),
    "pause": (_pause, "`scontrol uhold JOB` on the pending link does the same. " + _LOOK),
    "resume": (_resume, "`scontrol release JOB` on the held link does the same. " + _LOOK),
    "cancel": (
        _cancel,
        "`scancel JOB` on the pending link, then the running one, does the same. " + _LOOK,
    ),
}
"""By command: what runs it, and what the user can do while a service does not answer."""
