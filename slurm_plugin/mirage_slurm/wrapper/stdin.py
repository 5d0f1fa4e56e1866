"""The script on standard input: peek at it, read it, and restore it for the real sbatch.

A pipe's content is copied by tee(2), which takes nothing out. bash 5.1 passes a small here-document
as a pipe, and has written it whole before it starts sbatch.
"""

import os
import stat
import time

LONGEST_S = 1.0  # sbatch waits longer for the writer, but it refuses bad options before that
SIZE = 65536
WITHOUT_WAITING = 2  # SPLICE_F_NONBLOCK


def peek_script(cut_block, most):
    """Return the part of the script that is on standard input now, and leave it there.

    From a pipe, return what is written within a second; stop as soon as there is more than the
    leading comments (`cut_block`). Bytes read from a pipe could be put back only by waiting for its
    writer, and sbatch refuses bad options before it reads.
    """
    try:
        status = os.fstat(0)
    except OSError:  # closed
        return b""
    if stat.S_ISREG(status.st_mode):
        return os.pread(0, min(status.st_size, most), os.lseek(0, 0, os.SEEK_CUR))
    return _peek_pipe(cut_block) if stat.S_ISFIFO(status.st_mode) else b""


def read_all(most):
    """Return the whole script. Of a script longer than `most` bytes return a part that is longer too."""
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
        read_end = _fill_pipe(script)
    except OSError:  # no process to be had
        import tempfile

        with tempfile.TemporaryFile() as unnamed:
            unnamed.write(script)
            unnamed.seek(0)
            os.dup2(unnamed.fileno(), 0)
        return
    os.dup2(read_end, 0)
    os.close(read_end)


def _fill_pipe(script):
    """Return the read end of a pipe with the script. A script that fits needs no writing process."""
    read_end, write_end = os.pipe()
    if len(script) <= 65536:
        os.write(write_end, script)
    elif os.fork() == 0:
        os.close(read_end)
        try:
            while script:
                script = script[os.write(write_end, script) :]
        finally:
            os._exit(0)
    os.close(write_end)
    return read_end


def _peek_pipe(cut_block):
    deadline = time.monotonic() + LONGEST_S
    while True:
        is_all = _has_ended()
        text = _copy_pipe()
        is_enough = len(cut_block(text)) < len(text) or len(text) >= SIZE
        if is_all or is_enough or time.monotonic() > deadline:
            return text
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
