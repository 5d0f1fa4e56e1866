"""Exports an agent's network as one ONNX graph. Its inputs are the observations and a price, its
output is the advantage."""

import io
import warnings

import numpy as np
import torch
from torch import Tensor, nn

from mirage.lab.training.agents.networks import Net, NetInput, NetOutput
from mirage.lab.training.agents.trajectories import WINDOW, Trajectories, split_windows
from mirage.observation import spec
from mirage.policies.models.agent_model import AdvantageUnit, pad_window
from mirage.policies.models.onnx_session import ADVANTAGE, INPUT, KNOWN, PRICE, open_session
from mirage.policies.models.onnx_session import WINDOW as WINDOW_INPUT

OPSET = 17
"""The first ONNX operator set with layer normalisation."""

_MOST = 40
"""The most runs over which the graph is compared with the network, since their windows are held in
memory."""


class _ServingNet(nn.Module):
    """Wraps the network so that it takes the inputs that a service has."""

    def __init__(self, net: Net, unit: AdvantageUnit, part: int) -> None:
        super().__init__()
        self.net = net
        self._unit = unit
        self._part = part

    def forward(
        self,
        now: Tensor,
        price: Tensor,
        window: Tensor | None = None,
        known_steps: Tensor | None = None,
    ) -> Tensor:
        """Return the advantage [R, 1]."""
        if window is None or known_steps is None:
            past, mask = now[:, None][:, :0], now[:, :0]
        else:
            past, mask = split_windows(window, known_steps, self._part)
        answer: NetOutput = self.net(NetInput(now, past, mask), price[:, 0])
        hours = self.net.unit_h * (answer.free - answer.hold)
        return (answer.preference if self._unit is AdvantageUnit.LOG_ODDS else hours)[:, None]


def export_net(net: Net, unit: AdvantageUnit, part: int) -> bytes:
    """Export a network as an ONNX graph.

    The inputs are INPUT and PRICE, and if `part` is not 0 also WINDOW and KNOWN. The output is
    ADVANTAGE [R, 1].
    """
    features = len(net.scaled.low)
    shapes: dict[str, tuple[int, ...]] = {INPUT: (features,), PRICE: (1,)}
    if part:
        shapes |= {WINDOW_INPUT: (WINDOW, len(spec.FEATURE_NAMES)), KNOWN: (WINDOW,)}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # torch calls this exporter legacy; the new one needs another package.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            _ServingNet(net, unit, part).eval(),
            tuple(torch.ones(2, *shape) for shape in shapes.values()),
            buffer,  # type: ignore[arg-type]  # the exporter that traces takes a file that is open
            input_names=list(shapes),
            output_names=[ADVANTAGE],
            dynamic_axes={name: {0: "R"} for name in (*shapes, ADVANTAGE)},
            opset_version=OPSET,
            dynamo=False,
        )
    return buffer.getvalue()


def measure_parity(
    data: bytes, net: Net, unit: AdvantageUnit, part: int, runs: Trajectories
) -> dict[str, float]:
    """Measure the largest difference between graph and network over the newest runs, at prices 0.1
    to 2.

    The graph gets windows as a service makes them; the network gets the means it was trained on.
    """
    newest_runs = runs.select_episodes(np.arange(max(0, len(runs) - _MOST), len(runs)))
    net_input = newest_runs.build_input(part)
    price = np.geomspace(0.1, 2.0, len(net_input)).astype(np.float32)[:, None]
    inputs = {INPUT: net_input.now.numpy(), PRICE: price}
    if part:
        pairs = [
            pad_window(run[: k + 1], WINDOW)
            for run in newest_runs.observations
            for k in newest_runs.decision_instants
        ]
        inputs[WINDOW_INPUT] = np.array([window for window, _ in pairs])
        inputs[KNOWN] = np.array([mask for _, mask in pairs])
    (graph_output,) = open_session(data).run([ADVANTAGE], inputs)
    net.eval()
    with torch.no_grad():
        answer = net(net_input, torch.from_numpy(price[:, 0]))
    net_output = (
        answer.preference
        if unit is AdvantageUnit.LOG_ODDS
        else net.unit_h * (answer.free - answer.hold)
    )
    return {ADVANTAGE: float(np.abs(graph_output[:, 0] - net_output.numpy()).max())}
