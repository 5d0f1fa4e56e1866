"""A process that has imported the `mirage` command, and forks for each one that a test runs.

To import it takes a second of computing, which tests would pay for hundreds of times. What is run
is a process of its own all the same: its words, environment, folder, output and end are those of
`python -m mirage`.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from mirage import __main__ as command
from mirage.cli.app import COMMANDS
from tests.support.cli.late_imports import import_whole


def asked_for() -> bool:
    """Answers each command on standard input, a line of JSON, with a line, its exit code.

    True in the process that is to run one, False when there are no more.
    """
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
            return True
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    return False


def _become(call: Mapping[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(call["env"])
    time.tzset()
    os.chdir(call["cwd"])
    sys.path[0] = call["cwd"]
    sys.argv = [str(command.__file__), *call["words"]]
    for number, path in enumerate((os.devnull, call["out"], call["err"])):
        descriptor = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)


if __name__ == "__main__":
    for module, _ in COMMANDS.values():
        import_whole(module)
    gc.freeze()  # garbage is not looked for among what was imported, least of all at each end
    if asked_for():
        command.main()
