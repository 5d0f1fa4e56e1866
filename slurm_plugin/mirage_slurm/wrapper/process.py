"""Run the real sbatch or squeue as a child process, and read its output and exit code."""

import os

from mirage_slurm.wrapper import invocation

ASK_S = 0.5
SUBMITTED = "Submitted batch job "


def start_sbatch(real, words, environ):
    """Start the real sbatch. Return its process id, and a descriptor to read its output from.

    Raises OSError if sbatch could not be started, for want of processes, files or memory.
    """
    read_end, write_end = os.pipe()
    error_read_end, error_write_end = os.pipe()  # a successful exec closes it
    child = os.fork()
    if child == 0:
        try:
            os.dup2(write_end, 1)
            invocation.restore_signals()
            os.execve(real, ["sbatch"] + words, environ)  # noqa: S606 - an argument vector
        except OSError as error:
            os.write(error_write_end, b"%d" % (error.errno,))
        finally:
            os._exit(127)
    os.close(write_end)
    os.close(error_write_end)
    with os.fdopen(error_read_end, "rb") as file:
        number = file.read()
    if number:
        os.waitpid(child, 0)
        raise OSError(int(number), os.strerror(int(number)), real)
    return child, read_end


def await_sbatch(call, child, read_end):
    """Copy sbatch's output to standard output until sbatch has ended. Return the output, and set
    call.code to sbatch's exit code. If a signal ended sbatch, it ends this process too."""
    import _signal

    # The child decides about ^C. A closed standard output must not end the submission.
    old_handlers = [
        (number, _signal.signal(number, _signal.SIG_IGN))
        for number in (_signal.SIGINT, _signal.SIGPIPE)
    ]
    try:
        output = _pass_output(read_end)
    finally:
        status = os.waitpid(child, 0)[1]
        was_signalled = os.WIFSIGNALED(status)
        call.code = 128 + os.WTERMSIG(status) if was_signalled else os.WEXITSTATUS(status)
    for number, handler in old_handlers:
        _signal.signal(number, handler)
    if was_signalled:
        if os.WTERMSIG(status) != _signal.SIGKILL:
            _signal.signal(os.WTERMSIG(status), _signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return output


def _pass_output(read_end):
    output = b""
    while True:
        part = os.read(read_end, 65536)
        if not part:
            os.close(read_end)
            return output
        output += part
        try:
            os.write(1, part)
        except OSError:
            continue  # nobody reads the output; the submission goes on


def parse_job_id(output):
    """Return the job id in sbatch's output, in bytes: the number in the one line that is sbatch's own.

    That is `Submitted batch job 7`, `Submitted batch job 7 on cluster x`, `7` or `7;x`. None without
    such a line, or if a banner of the site holds another one: then the queue is asked.
    mirage_parse_job_id in carrier/standby.sh has the same rule.
    """
    ids = set()
    for line in output.decode("ascii", "replace").split("\n"):
        if line.startswith(SUBMITTED):
            number, on, cluster = line[len(SUBMITTED) :].partition(" on cluster ")
        else:
            number, on, cluster = line.partition(";")
        is_named = bool(cluster) and len(cluster.split()) == 1
        if number.isdigit() and not number.startswith("0") and (is_named or not on):
            ids.add(int(number))
    return ids.pop() if len(ids) == 1 else None


def run_silently(real, words, environ):
    """Run the real sbatch in silence. Return its exit code, its output and its errors, in bytes."""
    read_end, write_end = os.pipe()
    error_read_end, error_write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(write_end, 1)
            os.dup2(error_write_end, 2)
            invocation.restore_signals()
            os.execve(real, ["sbatch"] + words, environ)  # noqa: S606 - an argument vector
        finally:
            os._exit(127)
    os.close(write_end)
    os.close(error_write_end)
    # One after the other is enough: neither output fills a pipe.
    with os.fdopen(read_end, "rb") as answer, os.fdopen(error_read_end, "rb") as complaint:
        output = answer.read(), complaint.read()
    status = os.waitpid(child, 0)[1]
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + status,) + output


def find_job_id(output, chain, link):
    """Return the job id of a link, from sbatch's output or else from squeue; None if unknown.

    sbatch prints no id under --quiet, and a banner of the site may hide the id or look like it.
    """
    job = parse_job_id(output)
    is_alone = len(output.strip().split(b"\n")) == 1
    return job if job and is_alone else ask_queue(chain, link) or job


def ask_queue(chain, link):
    """Return the job id of a link from squeue, by the link's mark; None if unknown."""
    import _signal

    squeue = os.path.join(os.path.dirname(chain.call.real), "squeue")
    words = ["squeue", "-h", "--all", "-t", "all", "-u", str(os.getuid()), "-o", "%k %A"]
    clusters = chain.find_clusters()
    words += ["-M", clusters] if clusters else []
    environ = chain.call.environ  # SQUEUE_ variables may narrow the answer
    environ = {name: value for name, value in environ.items() if not name.startswith("SQUEUE_")}
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(write_end, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
            _signal.setitimer(_signal.ITIMER_REAL, ASK_S)  # survives exec, and ends squeue
            invocation.restore_signals()
            os.execve(squeue, words, environ)  # noqa: S606 - an argument vector
        finally:
            os._exit(127)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        text = answer.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    words_after = text.rpartition(chain.format_tag(link) + " ")[2].split()
    return int(words_after[0]) if words_after and words_after[0].isdigit() else None
