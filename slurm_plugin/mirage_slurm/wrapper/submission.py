"""Submit the first link of a chain through the real sbatch, and register the chain."""

import os
import re

from mirage_slurm.client import request
from mirage_slurm.wrapper import carrier, eligibility, invocation, process, registration
from mirage_slurm.wrapper.chain import Chain, Unsound, build_first_words
from mirage_slurm.wrapper.settings import ANY_LINKS

# Not in a link's environment: requests for a chain, and variables of another chain's link.
NOT_FOR_LINKS = frozenset(["MIRAGE_CHAIN", "MIRAGE_LINK", "MIRAGE_TOTAL", "SLURM_MIRAGE_PLAIN"])


def submit_chain(call, settings):
    """Submit the first link. Return the real sbatch's exit code."""
    _open_streams()
    try:
        chain = Chain(call, settings)
    except Unsound:
        return invocation.exec_sbatch(call)
    if settings.links > 1:
        eligibility.check_script(chain.script.text)
    carrier.make_directory(chain)
    try:
        child, read_end = process.start_sbatch(
            call.real, build_first_words(chain), build_first_environment(call.environ)
        )
    except Exception:
        carrier.remove_directory(chain)
        raise
    output = process.await_sbatch(call, child, read_end)
    if call.code != 0:
        carrier.remove_directory(chain)
        return call.code
    job = process.find_job_id(output, chain, 1)
    if settings.presubmit == "all" and job is not None:
        from mirage_slurm.wrapper import presubmit

        presubmit.submit_later_links(chain, job)
    _register_chain(chain, job)
    _report_habits(chain)
    return call.code


def _open_streams():
    """Open /dev/null for each of 0, 1 and 2 that is closed: the next file that is opened would take
    its number."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)


def build_first_environment(environ):
    return {name: value for name, value in environ.items() if name not in NOT_FOR_LINKS}


def _register_chain(chain, job):
    """Register the chain. After a failure the chain runs all the same, and one line says so."""
    settings = chain.settings
    if settings.service == "none":
        sentence = "chain %s: %s, planned by its links without a service%s"
        invocation.report(
            chain.call, sentence % (chain.id, _format_length(settings), _describe_rule(settings))
        )
        return
    settings.returns = carrier.bound_returns(chain)
    try:
        if job is None:
            raise request.Unreachable("sbatch printed no job id")
        registration.register_chain(chain.id, job, settings, chain.call.environ)
    except Exception as error:
        # A link of mode submit never asks for a plan, and so would not send it.
        is_sent_later = job is not None and settings.mode != "submit"
        body = registration.build_body(chain.id, job, settings) if is_sent_later else None
        is_refused = isinstance(error, request.ServiceRefused)
        carrier.save_registration(
            chain, body, "not registered: %s" % (error,) if is_refused else ""
        )
        invocation.report(
            chain.call,
            "chain %s is not registered (%s). The chain runs all the same: its links plan by"
            " themselves until a service answers one of them%s"
            % (chain.id, error, _describe_rule(settings)),
        )
    else:
        invocation.report(chain.call, "chain %s: %s" % (chain.id, _format_length(chain.settings)))


def _describe_rule(settings):
    """Describe the rule that links plan by, if another was asked for; else ""."""
    if settings.policy in (None, "quantile"):
        return ""
    return "; without a service `quantile` decides, not %s" % (settings.policy,)


def _report_habits(chain):
    """Tell the user if the script does what a chain makes needless, or would find the next link."""
    name = invocation.format_word(chain.script.name)
    if _is_calling_itself(chain):
        invocation.report(
            chain.call,
            "%s calls sbatch on itself: inside a chain that call submits nothing, since Mirage"
            " submits the next link" % (name,),
        )
    if chain.settings.links > 1 and _is_looking_for_its_name(chain):
        invocation.report(
            chain.call,
            "%s looks for jobs of its own name in the queue: it finds the next link too, which"
            " waits there under the same name" % (name,),
        )


def _is_calling_itself(chain):
    """Return whether a line of the script names sbatch and, after it, the script itself."""
    own = rb"\$\{?0\b|\$\{?BASH_SOURCE\b|\b__file__\b|\bargv\[0\]"
    if chain.call.path is not None:
        own += rb"|(?<![\w.-])" + re.escape(os.fsencode(chain.script.name)) + rb"(?![\w.-])"
    return _has_line(chain, rb"\bsbatch\b.*(?:" + own + rb")")


def _is_looking_for_its_name(chain):
    """Return whether a line of the script asks squeue for jobs of a name, or for all of the user's jobs.

    A question about one job (`squeue -j $SLURM_JOB_ID`) finds no other.
    """
    name = eligibility.find_value("job-name", "J", "SBATCH_JOB_NAME", chain.call)
    names = [rb"SLURM_JOB_NAME", *([re.escape(os.fsencode(name))] if name else [])]
    asks_for_more = rb"[\s\"'](?:--name|--me|--user|-[A-Za-z]*[nu])\b"
    one_job = rb"(?![^|;&]*[\s\"'](?:-[A-Za-z]*j|--jobs?\b))"
    return _has_line(
        chain, rb"\bsqueue\b%s(?:[^|;&]*%s|.*(?:%s))" % (one_job, asks_for_more, rb"|".join(names))
    )


def _has_line(chain, pattern):
    """Return whether a line of the script that is no comment matches. Continued lines count as one."""
    lines = chain.script.text.replace(b"\\\n", b" ").split(b"\n")
    code = (line for line in lines if not line.lstrip().startswith(b"#"))
    return any(re.search(pattern, line) for line in code)


def _format_length(settings):
    if settings.links == ANY_LINKS and settings.total_s is not None:
        return "links until they have run for %d min in all" % (settings.total_s // 60,)
    return "%d link%s" % (settings.links, "s" * (settings.links != 1))
