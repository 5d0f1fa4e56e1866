"""Runs an artefact's graph, and names its inputs and outputs."""

import os
from typing import Any

INPUT = "observation"
"""float32[R, F]: what is known now."""
WINDOW, KNOWN = "window", "known"
"""float32[R, W, F] and [R, W]: observations of the run so far, ten minutes apart, the newest last;
1 where there is one, 0 before the run began."""
PRICE = "price"
"""float32[R, 1]: the overlap price, the cost of an hour of overlap."""

WAIT = "wait"
"""Output of trees: float32[R, Q], [R, J] or both side by side, the forecast of the wait
(`quantiles.read_log_quantiles`). Graphs of earlier versions have a second one, P(late)."""
ADVANTAGE = "advantage"
"""Output of an agent: float32[R, 1], the advantage of freeing now over waiting."""


def open_session(graph: bytes) -> Any:
    """Open an onnxruntime session on one thread: one decision is too small for several threads.

    Without the variable onnxruntime makes an id of this host in ~/.cache/Microsoft, and sends
    events to Microsoft. It reads the variable once, when it is loaded.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # noqa: PLC0415 - a fifth of a second, and only a model needs it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def check_signature(session: Any, input_names: set[str], output_names: set[str]) -> None:
    """Check the names of a graph's inputs and outputs. Raises ValueError for a graph of another
    kind of model."""
    inputs = {tensor.name for tensor in session.get_inputs()}
    outputs = {tensor.name for tensor in session.get_outputs()}
    if inputs != input_names or not outputs >= output_names:
        raise ValueError(
            f"its graph computes {', '.join(sorted(outputs))} from {', '.join(sorted(inputs))},"
            f" not {', '.join(sorted(output_names))} from {', '.join(sorted(input_names))}"
        )
