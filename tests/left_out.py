"""Says before a test run what this machine will leave out, and why; in CI that is an error."""

import os
import shutil
import sys
from pathlib import Path


def left_out() -> list[str]:
    """One sentence for each kind of test that cannot run here."""
    root = os.geteuid() == 0
    installable = root and shutil.which("apt-get") is not None
    found = []
    if not root:
        found.append("real Slurm (marker slurm): starts daemons as several users, run as root")
    elif not installable and shutil.which("slurmctld") is None:
        found.append("real Slurm (marker slurm): neither installed nor installable (no apt-get)")
    if not installable and not Path("/usr/lib/postgresql").is_dir():
        found.append("PostgreSQL (marker postgres): not installed, and this user cannot install it")
    return found


def main() -> int:
    missing = left_out()
    for sentence in missing:
        sys.stderr.write(f"left out: {sentence}\n")
    return 1 if missing and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
