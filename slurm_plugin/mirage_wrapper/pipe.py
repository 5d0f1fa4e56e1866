"""What stands in a pipe, looked at where it stands: tee(2) copies without taking anything out.

bash 5.1 gives a small here-document as a pipe, and has written it whole before it starts sbatch.
"""

import os
import select
import time

from mirage_wrapper import request


LONGEST_S = 1.0  # sbatch waits longer for whoever writes; but it refuses bad options before that
SIZE = 65536
WITHOUT_WAITING = 2  # SPLICE_F_NONBLOCK


def head(fd):
    """The script's leading comment lines, as far as they are written within a second."""
    last = time.monotonic() + LONGEST_S
    while True:
        is_all = _has_ended(fd)
        seen = _copy(fd)
        block = request.leading_block(seen)
        if is_all or len(block) < len(seen) or len(seen) >= SIZE or time.monotonic() > last:
            return block
        time.sleep(0.01)


def _has_ended(fd):
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def _copy(fd):
    """What is in the pipe now; b"" where this Python or system cannot tell."""
    try:
        import ctypes  # which a small Python comes without

        tee = ctypes.CDLL(None).tee
    except (ImportError, AttributeError, OSError):
        return b""
    out, into = os.pipe()
    try:
        copied = tee(fd, into, ctypes.c_size_t(SIZE), WITHOUT_WAITING)
        return os.read(out, copied) if copied > 0 else b""
    finally:
        os.close(out)
        os.close(into)
