"""Run the real sbatch and its kin beside this process: what they say, and how they end."""

import os

from mirage_wrapper import invocation

ASK_S = 0.5
SUBMITTED = "Submitted batch job "


def start_sbatch(real, words, environ):
    """Start the real sbatch: its process, and what it says on standard output.

    Raises OSError where no sbatch came to run, be it for want of processes, files or memory.
    """
    out, theirs = os.pipe()
    trouble, their_trouble = os.pipe()  # an exec that succeeds closes it
    child = os.fork()
    if child == 0:
        try:
            os.dup2(theirs, 1)
            invocation.restore_signals()
            os.execve(real, ["sbatch"] + words, environ)  # noqa: S606 - an argument vector
        except OSError as error:
            os.write(their_trouble, b"%d" % (error.errno,))
        finally:
            os._exit(127)
    os.close(theirs)
    os.close(their_trouble)
    with os.fdopen(trouble, "rb") as told:
        number = told.read()
    if number:
        os.waitpid(child, 0)
        raise OSError(int(number), os.strerror(int(number)), real)
    return child, out


def await_sbatch(call, child, out):
    """Pass sbatch's output on until it has ended; its exit code is the answer from then on."""
    import _signal

    # The child decides what ^C means; that nobody reads matters less than the submission.
    before = [(n, _signal.signal(n, _signal.SIG_IGN)) for n in (_signal.SIGINT, _signal.SIGPIPE)]
    try:
        said = _pass_output(out)
    finally:
        status = os.waitpid(child, 0)[1]
        signalled = os.WIFSIGNALED(status)
        call.code = 128 + os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
    for number, handler in before:
        _signal.signal(number, handler)
    if signalled:
        if os.WTERMSIG(status) != _signal.SIGKILL:
            _signal.signal(os.WTERMSIG(status), _signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return said


def _pass_output(out):
    said = b""
    while True:
        part = os.read(out, 65536)
        if not part:
            os.close(out)
            return said
        said += part
        try:
            os.write(1, part)
        except OSError:
            continue  # nobody reads; the submission matters more


def parse_job_id(said):
    """The id in the one line that is sbatch's own answer (mirage_parse_job_id in carrier_standby.sh).

    That is `Submitted batch job 7`, `Submitted batch job 7 on cluster x`, `7` or `7;x`. None without
    such a line, and if a banner of the site holds another one: then the queue is asked.
    """
    found = set()
    for line in said.decode("ascii", "replace").split("\n"):
        if line.startswith(SUBMITTED):
            number, on, cluster = line[len(SUBMITTED) :].partition(" on cluster ")
        else:
            number, on, cluster = line.partition(";")
        is_named = bool(cluster) and len(cluster.split()) == 1
        if number.isdigit() and not number.startswith("0") and (is_named or not on):
            found.add(int(number))
    return found.pop() if len(found) == 1 else None


def run_silently(real, words, environ):
    """Run the real sbatch in silence: its exit code, what it said and what it complained of."""
    out, theirs = os.pipe()
    errors, their_errors = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(theirs, 1)
            os.dup2(their_errors, 2)
            invocation.restore_signals()
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


def find_job_id(said, chain, link):
    """The id of the job of a link by sbatch's output `said`; None if unknown.

    sbatch keeps the id back under --quiet, and a banner of the site may hide it or look like it.
    """
    job = parse_job_id(said)
    is_alone = len(said.strip().split(b"\n")) == 1
    return job if job and is_alone else ask_queue(chain, link) or job


def ask_queue(chain, link):
    """The id of the job of a link, by squeue; None if unknown."""
    import _signal

    squeue = os.path.join(os.path.dirname(chain.call.real), "squeue")
    words = ["squeue", "-h", "--all", "-t", "all", "-u", str(os.getuid()), "-o", "%k %A"]
    clusters = chain.find_clusters()
    words += ["-M", clusters] if clusters else []
    environ = chain.call.environ  # which may narrow the answer
    environ = {name: value for name, value in environ.items() if not name.startswith("SQUEUE_")}
    out, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(theirs, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
            _signal.setitimer(_signal.ITIMER_REAL, ASK_S)  # goes on in squeue, and ends it
            invocation.restore_signals()
            os.execve(squeue, words, environ)  # noqa: S606 - an argument vector
        finally:
            os._exit(127)
    os.close(theirs)
    with os.fdopen(out, "rb") as answer:
        shown = answer.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    after = shown.rpartition(chain.format_tag(link) + " ")[2].split()
    return int(after[0]) if after and after[0].isdigit() else None
