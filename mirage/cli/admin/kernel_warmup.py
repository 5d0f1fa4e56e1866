"""The service's kernels, compiled in a process beside it: until it has ended rules decide."""

import subprocess
import sys
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)


class KernelCompiler:
    """Compiles for the cluster of a cluster file; within seconds where it is all kept on disk."""

    def __init__(self, file: Path | None) -> None:
        """None: there is nothing to compile."""
        words = [sys.executable, "-P", "-m", "mirage.services.models.kernel_warmup", str(file)]
        self._process = (
            None if file is None else subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: S603 - a program of ours
        )

    def is_done(self) -> bool:
        """Also after a failure: then the worker compiles, and says what is wrong."""
        process = self._process
        if process is None:
            return True
        if process.poll() is None:
            return False
        _log.info("compiled", code=process.returncode)
        self._process = None
        return True

    def end(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
