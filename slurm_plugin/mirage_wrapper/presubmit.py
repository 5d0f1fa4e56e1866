"""Submit all later links at once, for sites where compute nodes may not submit.

Each depends on every link before it, not on the last alone: cancelling a link that waits would
otherwise meet the next one's dependency and start it beside the link that runs.
"""

import os

from mirage_wrapper import carrier, invocation, process
from mirage_wrapper.chain import later_words


def submit_later(chain, first):
    """Submit the links 2, 3, ... behind job `first`; where sbatch refuses one, that is where it ends.

    The links then put the next one in place themselves, as in a chain that is not presubmitted.
    """
    jobs = [first]
    environ = carrier.kept_environment(chain.call.environ)
    for link in range(2, chain.settings.links + 1):
        job, why = _submit(chain, link, jobs, environ)
        if job is None:
            invocation.say(chain.call, "%d of %d links stand; %s" % (len(jobs), chain.settings.links, why))
            return
        jobs.append(job)
        _note(chain, link, job)


def _submit(chain, link, jobs, environ):
    """The job of this link, or None and sbatch's words."""
    before, after = later_words(chain)
    own = ["--parsable", "--dependency=afterany:" + ":".join(map(str, jobs))]
    own += ["--comment=" + chain.comment_for(link), chain.open_mode()]
    words = before + [word for word in own if word] + after
    words += [chain.carrier(), chain.tag(link)] + chain.arguments()
    code, said, complaint = process.ask_silently(chain.call.real, words, environ)
    job = process.job_id(said) if code == 0 else None
    why = complaint.decode("utf-8", "replace").strip().split("\n")[0]
    return job, why or "sbatch ended with %d and named no job" % (code,)


def _note(chain, link, job):
    """Write down the job of a link, as the link that came before it would."""
    path = os.path.join(chain.directory, "jobs", str(link))
    carrier.write(path + ".new", b"%d\n" % (job,))
    os.rename(path + ".new", path)
