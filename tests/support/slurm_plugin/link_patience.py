"""A copy of the plugin whose limits are as long as a busy host needs, in a cluster in fast time.

Limits inside the cluster count its own seconds, and Python takes as long to start as on any host.
"""

import re
from pathlib import Path

_LIMITS = (
    ("mirage_slurm/planner/plan.py", "LIMIT_S = 120\n", "LIMIT_S = 120 * SPEED\n"),
    ("mirage_slurm/planner/give_back.py", "LIMIT_S = 90\n", "LIMIT_S = 90 * SPEED\n"),
    ("mirage_slurm/planner/slurm_jobs.py", "ASK_S = 20\n", "ASK_S = 20 * SPEED\n"),
    ("mirage_slurm/planner/past_waits.py", "ASK_S = 20\n", "ASK_S = 20 * SPEED\n"),
    (
        "mirage_slurm/carrier/files.sh",
        '        timeout "$@"\n',
        "        mirage_limit_s=$(($1 * SPEED))\n        shift\n"
        '        timeout "$mirage_limit_s" "$@"\n',
    ),
    ("mirage_slurm/carrier/files.sh", '"${mirage_look_s-}" 2', '"${mirage_look_s-}" 20'),
)
"""The last one is how often a link that waits looks around."""


def give_links_time(plugin: Path, speed: int) -> None:
    """Change this copy of the plugin for a cluster whose clock runs `speed` times faster."""
    for name, before, after in _LIMITS:
        replace_once(plugin / name, before, after.replace("SPEED", str(speed)))


def replace_once(path: Path, before: str, after: str) -> None:
    """Raises RuntimeError where the file does not hold the text exactly once."""
    text = path.read_text()
    if len(re.findall(re.escape(before), text)) != 1:
        raise RuntimeError(f"{path.name} does not hold {before!r} once")
    path.write_text(text.replace(before, after))
