"""A link that trains at a steady pace, as a program: `paced_link.py STEPS STEP_S LOG`.

A step is a sleep and a line of LOG: `step NUMBER LINK JOB INSTANT`. The state is the number of the
last step, saved every EVERY steps and before the link ends.
"""

import importlib
import os
import sys
import time
from pathlib import Path

EVERY = 10
PATIENCE_S = 3600.0
"""How long a link waits for the other one: on a cluster in fast time seconds are short."""


def main(steps: int, step_s: float, log: Path) -> None:
    sys.path.insert(0, os.environ["PLUGIN"])
    handover = importlib.import_module("mirage_handover").Handover(
        patience_s=PATIENCE_S, takeover_s=PATIENCE_S, stale_s=PATIENCE_S, poll_s=step_s / 10
    )
    if not handover.begin():
        return
    checkpoint = log.with_suffix(".step")
    step = int(checkpoint.read_text()) if checkpoint.exists() else 0

    def save() -> None:
        with handover.checkpoint(checkpoint) as name:
            Path(name).write_text(str(step))

    identity = f"{os.environ['MIRAGE_LINK']} {os.environ['SLURM_JOB_ID']}"
    while step < steps:
        if handover.should_release():
            save()
            if handover.release():
                return
        time.sleep(step_s)
        step += 1
        with log.open("a") as lines:
            lines.write(f"step {step} {identity} {int(time.time())}\n")
        if step % EVERY == 0:
            save()
    save()
    handover.done()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
