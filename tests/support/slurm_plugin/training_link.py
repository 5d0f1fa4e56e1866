"""A link that trains with PyTorch, as a program: counting_link.py with torch and its adapter.

The model's one weight is the number of steps: it grows by one at each, and by nothing else.
"""

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.support.slurm_plugin.counting_link import CHAIN, gate_is_open, kind_of, record

STEPS, EVERY, GATE, STEP_S = 24, 4, 20, 0.01


def main() -> None:
    sys.path.insert(0, os.environ["PLUGIN"])
    module = importlib.import_module("mirage_handover")
    handover = module.Handover(patience_s=20, takeover_s=5, stale_s=2)
    adapter = importlib.import_module("mirage_handover_torch")
    loop = adapter.Loop(str(CHAIN.parent / "model.ckpt"), handover, every=EVERY)
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = loop.begin()
    step = 0
    if state is not None:
        model.load_state_dict(state["model"])
        step = state["step"]

    def now() -> dict[str, Any]:
        return {"model": model.state_dict(), "step": step}

    record_commits(handover, now)
    while step < STEPS:
        if step == int(os.environ.get("LAST", "-1")):
            loop.save(now())
            handover.release()
            return
        if step == GATE and not gate_is_open():
            time.sleep(STEP_S)
            loop.step(now)
            continue
        optimizer.zero_grad()
        (-model(torch.ones(1, 1))).sum().backward()
        optimizer.step()
        step += 1
        record("step", handover, step)
        time.sleep(STEP_S)
        loop.step(now)
    loop.save(now())
    loop.done()


def record_commits(handover: Any, now: Any) -> None:
    rename = os.rename

    def rename_and_record(source: str, target: str) -> None:
        rename(source, target)
        if kind_of(str(target)) == "checkpoint":
            record("commit", handover, now()["step"])

    os.rename = rename_and_record  # type: ignore[assignment]


if __name__ == "__main__":
    Path(CHAIN / "torch").touch()
    main()
