"""Submit all later links at once, for sites where compute nodes may not submit.

Each depends on every link before it, not on the last alone: cancelling a link that waits would
otherwise meet the next one's dependency and start it beside the link that runs.
"""

import os

from mirage_wrapper import carrier, invocation, process
from mirage_wrapper.chain import build_later_words


def submit_later_links(chain, first):
    """Submit the links 2, 3, ... behind job `first`; where sbatch refuses one, that is where it ends.

    The links then put the next one in place themselves, as in a chain that is not presubmitted.
    """
    jobs = [first]
    environ = carrier.filter_environment(chain.call.environ)
    for link in range(2, chain.settings.links + 1):
        job, why = _submit_link(chain, link, jobs, environ)
        if job is None:
            invocation.report(
                chain.call,
                "%d of %d links are in the queue, and the links submit the others: %s"
                % (len(jobs), chain.settings.links, why),
            )
            return
        jobs.append(job)
        _record_job(chain, link, job)


def _submit_link(chain, link, jobs, environ):
    """The job of this link, or None and sbatch's words."""
    before, after = build_later_words(chain)
    own = ["--parsable", "--dependency=afterany:" + ":".join(map(str, jobs))]
    own += ["--comment=" + chain.format_comment(link), chain.choose_open_mode()]
    words = before + [word for word in own if word] + after
    words += [chain.get_carrier_path(), chain.format_tag(link)] + chain.get_arguments()
    code, said, complaint = process.run_silently(chain.call.real, words, environ)
    job = process.find_job_id(said, chain, link) if code == 0 else None
    why = complaint.decode("utf-8", "replace").strip().split("\n")[0]
    return job, why or "sbatch ended with %d and printed no job id" % (code,)


def _record_job(chain, link, job):
    """Write down the job of a link, as the link that came before it would."""
    path = os.path.join(chain.directory, "jobs", str(link))
    carrier.write_file(path + ".new", b"%d\n" % (job,))
    os.rename(path + ".new", path)
