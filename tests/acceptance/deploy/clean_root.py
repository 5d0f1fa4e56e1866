"""A root file system of its own over another, in which packages come and go."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SCRIPT = Path(__file__).with_name("clean_root.sh")
_LONGEST_S = 1800


class CleanRoot:
    """Commands run in it, as root or as `user`; what they start and leave behind stays in it."""

    def __init__(self, pid: int, below: Path) -> None:
        self._below = below
        self._beside = ["nsenter", f"--target={pid}", "--mount"]
        self._enter = [*self._beside, "--pid", "--net", "--root", "--wd"]

    def argv(self, *words: str, user: str = "") -> list[str]:
        """To hand to Popen, for what goes on; `end` ends it."""
        who = [f"--reuid={user}", f"--regid={user}", "--init-groups", "--"] if user else []
        return [*self._enter, *(["setpriv", *who] if who else []), *words]

    def run(self, *words: str, user: str = "") -> subprocess.CompletedProcess[str]:
        """Whatever its exit code."""
        return subprocess.run(
            self.argv(*words, user=user),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_S,
        )

    def done(self, *words: str, user: str = "") -> str:
        """What it prints; it must succeed."""
        answer = self.run(*words, user=user)
        assert answer.returncode == 0, f"{words}: {answer.stdout}{answer.stderr}"
        return answer.stdout

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        """SIGTERM to what was started: the process itself only waits for it outside."""
        if process.poll() is None:
            os.kill(_child(process.pid), signal.SIGTERM)

    def new(self) -> set[str]:
        """Every path that is in it and not in the root below."""
        upper = "/mnt/upper"
        words = [*self._beside, "find", upper, "-mindepth", "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        written = {path.removeprefix(upper) for path in done.stdout.splitlines()}
        return {path for path in written if not os.path.lexists(f"{self._below}{path}")}


@contextmanager
def clean_root(srv: Path, below: Path = Path("/")) -> Iterator[CleanRoot]:
    """`srv` is its /srv, read-only; `below`: the root that it shows. All ends with the block."""
    namespaces = ("unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child")
    words: Sequence[str] = (*namespaces, "bash", str(_SCRIPT), str(srv), str(below))
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "ready\n", "no root of its own can be made here"
        yield CleanRoot(_child(holder.pid), below)
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait()


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
