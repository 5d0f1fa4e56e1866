"""Submit all later links at once, for sites where compute nodes may not submit.

Each depends on every link before it, not on the last alone: cancelling a link that waits would
otherwise meet the next one's dependency and start it beside the link that runs.
"""

import os

import mirage_carrier
import mirage_chain
from mirage_sbatch import say, signals_for_a_program


def submit_later(chain, first):
    """Submit the links 2, 3, ... behind job `first`; where sbatch refuses one, that is where it ends.

    The links then put the next one in place themselves, as in a chain that is not presubmitted.
    """
    jobs = [first]
    environ = mirage_carrier.kept_environment(chain.call.environ)
    for link in range(2, chain.settings.links + 1):
        job, why = _submit(chain, link, jobs, environ)
        if job is None:
            say(chain.call, "%d of %d links stand; %s" % (len(jobs), chain.settings.links, why))
            return
        jobs.append(job)
        _note(chain, link, job)


def _submit(chain, link, jobs, environ):
    """The job of this link, or None and sbatch's words."""
    before, after = mirage_chain.later_words(chain)
    own = ["--parsable", "--dependency=afterany:" + ":".join(map(str, jobs))]
    own += ["--comment=" + chain.comment_for(link), chain.open_mode()]
    words = before + [word for word in own if word] + after
    words += [chain.carrier(), chain.tag(link)] + chain.arguments()
    code, said, complaint = _ask(chain.call.real, words, environ)
    job = mirage_chain.job_id(said) if code == 0 else None
    why = complaint.decode("utf-8", "replace").strip().split("\n")[0]
    return job, why or "sbatch ended with %d and named no job" % (code,)


def _ask(real, words, environ):
    """Run the real sbatch in silence: its exit code, what it said and what it complained of."""
    out, theirs = os.pipe()
    errors, their_errors = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(theirs, 1)
            os.dup2(their_errors, 2)
            signals_for_a_program()
            os.execve(real, ["sbatch"] + words, environ)  # noqa: S606 - an argument vector
        finally:
            os._exit(127)
    os.close(theirs)
    os.close(their_errors)
    # One after the other is enough: neither fills a pipe.
    with os.fdopen(out, "rb") as answer, os.fdopen(errors, "rb") as complaint:
        said = answer.read(), complaint.read()
    status = os.waitpid(child, 0)[1]
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + status,) + said


def _note(chain, link, job):
    """Write down the job of a link, as the link that came before it would."""
    path = os.path.join(chain.directory, "jobs", str(link))
    mirage_carrier.write(path + ".new", b"%d\n" % (job,))
    os.rename(path + ".new", path)
