"""A link that counts, as a program: `counting_link.py STEPS`, or `counting_link.py VERB...`.

Every step, and every moment at which a checkpoint becomes current, is a line of $MIRAGE_DIR/lines
with the writer's token. FAULT="kill@before rename lease#2" kills the process at the second such
call, and "stop@..." stops it; `*` is any call. Only functions of `os` are wrapped: the plugin's
code is as shipped.
"""

import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

CHAIN = Path(os.environ.get("MIRAGE_DIR", "."))
CHECKPOINT = CHAIN.parent / "model.ckpt"
PADDING = "x" * 20_000
EVERY = 4
STEP_S = 0.005
GATE = 20
"""Link 1 stays at this step until the successor is there: no test hangs on who is faster."""

committing: list[tuple[Any, int]] = []
"""The handover that is making a checkpoint current, and the step of that checkpoint."""
passes: dict[str, int] = {}
"""How often each point was passed."""


def main(words: list[str]) -> int:
    sys.path.insert(0, os.environ["PLUGIN"])
    watch_calls()
    skew_s = float(os.environ.get("SKEW_S", "0"))
    true_time = time.time
    time.time = lambda: true_time() + skew_s
    if not words[0].isdigit():
        return int(importlib.import_module("mirage_slurm.handover.verbs").main(words))
    return count(int(words[0]))


def leaves(handover: Any) -> bool:
    return "LEAVE" in os.environ or bool(handover.release())


def count(steps: int) -> int:
    module = importlib.import_module("mirage_handover")
    stale_s = float(os.environ.get("STALE_S", "0.2"))
    handover = module.Handover(patience_s=20, takeover_s=1, stale_s=stale_s)
    (CHAIN / f"pids.{handover.me.link}").write_text(f"{os.getpid()} {os.getppid()}\n")
    if not handover.begin():
        return 0
    state: dict[str, Any] = {"step": 0, "lineage": []}
    if CHECKPOINT.exists():
        state = load(CHECKPOINT)
    while state["step"] < steps:
        time_is_up = state["step"] == int(os.environ.get("LAST", "-1"))
        ends = handover.should_release() or time_is_up
        if ends and save_or_go_on(handover, state) and leaves(handover):
            return 0
        if state["step"] == GATE and not gate_is_open():
            time.sleep(STEP_S)
            continue
        state["step"] += 1
        state["lineage"].append(int(handover.token.split("-")[0]))
        record("step", handover, state["step"])
        point("step", "", str(state["step"]))
        time.sleep(STEP_S)
        if state["step"] % EVERY == 0:
            save_or_go_on(handover, state)
    while not save_or_go_on(handover, state):
        time.sleep(STEP_S)
    handover.done()
    return 0


def gate_is_open() -> bool:
    """GATE names a file that opens the gate. Without GATE the gate is open; a request for the lease
    passes a gate that stays closed."""
    return "GATE" not in os.environ or Path(os.environ["GATE"]).exists()


def save_or_go_on(handover: Any, state: dict[str, Any]) -> bool:
    """Save, and return whether that worked: a full disk must not end the program."""
    committing[:] = [(handover, state["step"])]
    try:
        with handover.checkpoint(CHECKPOINT) as name:
            write(name, state)
    except OSError as error:
        record("full" if error.errno is not None else "error", handover, state["step"])
        return False
    return True


def write(name: str, state: dict[str, Any]) -> None:
    body = json.dumps(state | {"padding": PADDING}).encode()
    text = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    if "LIMIT" in os.environ and state["step"] < int(os.environ["LIMIT"]):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    else:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    with Path(name).open("wb", buffering=0) as out:
        written = out.write(text[:9000])
        point("half", "write", "staged")
        while written < len(text):
            written += out.write(text[written:])


def load(path: Path) -> dict[str, Any]:
    """Raise ValueError for a checkpoint that is torn."""
    digest, _, body = path.read_bytes().partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError(f"torn: {path}")
    state: dict[str, Any] = json.loads(body)
    return {name: state[name] for name in ("step", "lineage")}


def record(kind: str, handover: Any, step: int) -> None:
    line = f"{kind} {handover.token} {step}\n".encode()
    fd = os.open(CHAIN / "lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, line)
    os.close(fd)


def watch_calls() -> None:
    for name in ("rename", "link", "unlink"):
        setattr(os, name, watched(name, getattr(os, name)))


def watched(name: str, real: Any) -> Any:
    def call(*paths: Any) -> Any:
        kind = kind_of(str(paths[-1]))
        point("before", name, kind)
        result = real(*paths)
        if name == "rename" and kind == "checkpoint" and committing:
            record("commit", *committing[0])
        point("after", name, kind)
        return result

    return call


def point(when: str, name: str, kind: str) -> None:
    """Pass a point of the program. If FAULT names the point, the process ends or stops here."""
    action, _, pattern_wanted = os.environ.get("FAULT", "").partition("@")
    passed = " ".join(filter(None, (when, name, kind)))
    for pattern in (passed, "*"):
        passes[pattern] = passes.get(pattern, 0) + 1
        if action and pattern_wanted in (
            f"{pattern}#{passes[pattern]}",
            pattern if passes[pattern] == 1 else "",
        ):
            os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)


def kind_of(path: str) -> str:
    """lease, free, request, ready, stage, beat, verdict, done, staged, checkpoint."""
    folder, name = os.path.split(path)
    if ".mirage-" in name:
        return "staged"
    if name.startswith("."):
        return "temporary"
    if name.endswith(".free"):
        return "free"
    if path == str(CHECKPOINT):
        return "checkpoint"
    return os.path.basename(folder) if "/handover/" in path else name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
