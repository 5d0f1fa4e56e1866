"""The script on standard input: looked at where it stands, read, and given on to the real sbatch.

What stands in a pipe is copied by tee(2), which takes nothing out. bash 5.1 gives a small
here-document as a pipe, and has written it whole before it starts sbatch.
"""

import os
import stat
import time

LONGEST_S = 1.0  # sbatch waits longer for whoever writes; but it refuses bad options before that
SIZE = 65536
WITHOUT_WAITING = 2  # SPLICE_F_NONBLOCK


def peek_script(cut_block, most):
    """Return the part of the script that stands on standard input, and leave it there.

    Of a pipe, return what is written within a second, until there is more than `cut_block` cuts out
    of it: the leading comments. Bytes read from a pipe could not be put back except by waiting for
    its writer, and sbatch refuses bad options before it reads.
    """
    try:
        found = os.fstat(0)
    except OSError:  # closed
        return b""
    if stat.S_ISREG(found.st_mode):
        return os.pread(0, min(found.st_size, most), os.lseek(0, 0, os.SEEK_CUR))
    return _peek_pipe(cut_block) if stat.S_ISFIFO(found.st_mode) else b""


def read_all(most):
    """The whole script; of one that is longer, more than `most` bytes."""
    parts = []
    left = most
    while left >= 0:
        part = os.read(0, 65536)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def restore_script(script):
    """Make `script` standard input again."""
    try:
        end = _fill_pipe(script)
    except OSError:  # no process to be had
        import tempfile

        with tempfile.TemporaryFile() as unnamed:
            unnamed.write(script)
            unnamed.seek(0)
            os.dup2(unnamed.fileno(), 0)
        return
    os.dup2(end, 0)
    os.close(end)


def _fill_pipe(script):
    """The end to read from. What fits into a pipe needs no writer beside it."""
    end, start = os.pipe()
    if len(script) <= 65536:
        os.write(start, script)
    elif os.fork() == 0:
        os.close(end)
        try:
            while script:
                script = script[os.write(start, script) :]
        finally:
            os._exit(0)
    os.close(start)
    return end


def _peek_pipe(cut_block):
    last = time.monotonic() + LONGEST_S
    while True:
        is_all = _has_ended()
        seen = _copy_pipe()
        is_enough = len(cut_block(seen)) < len(seen) or len(seen) >= SIZE
        if is_all or is_enough or time.monotonic() > last:
            return seen
        time.sleep(0.01)


def _has_ended():
    import select

    poll = select.poll()
    poll.register(0, select.POLLIN)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def _copy_pipe():
    """Copy the pipe's present content; b"" if this Python or system cannot."""
    try:
        import ctypes  # which a small Python comes without

        tee = ctypes.CDLL(None).tee
    except (ImportError, AttributeError, OSError):
        return b""
    out, into = os.pipe()
    try:
        copied = tee(0, into, ctypes.c_size_t(SIZE), WITHOUT_WAITING)
        return os.read(out, copied) if copied > 0 else b""
    finally:
        os.close(out)
        os.close(into)
