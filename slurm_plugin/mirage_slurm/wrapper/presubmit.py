"""Submit all later links at once, for sites where compute nodes may not submit.

Each link depends on every link before it, not on the last alone. Otherwise the cancellation of a
waiting link would satisfy the next one's dependency, and start it beside the running link.
"""

import os

from mirage_slurm.wrapper import carrier, invocation, process
from mirage_slurm.wrapper.chain import build_later_words


def submit_later_links(chain, first):
    """Submit the links 2, 3, ... behind job `first`, until sbatch refuses one.

    From there on the links submit the next one themselves, as in any other chain.
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
    """Submit a link. Return its job and sbatch's complaint; the job is None after a failure."""
    before, after = build_later_words(chain)
    link_words = ["--parsable", "--dependency=afterany:" + ":".join(map(str, jobs))]
    link_words += ["--comment=" + chain.format_comment(link), chain.choose_open_mode()]
    words = before + [word for word in link_words if word] + after
    words += [chain.get_carrier_path(), chain.format_tag(link)] + chain.get_arguments()
    code, output, complaint = process.run_silently(chain.call.real, words, environ)
    job = process.find_job_id(output, chain, link) if code == 0 else None
    why = complaint.decode("utf-8", "replace").strip().split("\n")[0]
    return job, why or "sbatch ended with %d and printed no job id" % (code,)


def _record_job(chain, link, job):
    """Write down the job of a link, as its predecessor does in any other chain."""
    path = os.path.join(chain.directory, "jobs", str(link))
    carrier.write_file(path + ".new", b"%d\n" % (job,))
    os.rename(path + ".new", path)
