"""Converts a fitted forecast to one ONNX graph: an observation in, the forecast of the wait out."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper
from onnxmltools.convert import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as XgboostInput
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType as SklearnInput

from mirage.domain.arrays import Observations
from mirage.lab.training.trees.ensemble import EnsembleForecast
from mirage.lab.training.trees.tree_families import BoostedTrees, FittedForecast, ForestTrees, Trees
from mirage.policies.models.onnx_session import INPUT, WAIT, open_session

OPSET, OPSET_ML, IR = 15, 3, 8
"""The ONNX operator set. Every onnxruntime of recent years supports it."""


def export_trees(wait: FittedForecast, features: int) -> bytes:
    """Export the forecast as an ONNX graph with the output WAIT: its columns [R, J + Q]
    (`quantiles.read_log_quantiles`)."""
    members = (wait.forest, wait.boosted) if isinstance(wait, EnsembleForecast) else (wait,)
    converted = [part for member in members for part in _convert_trees(member, features)]
    parts = [_rename_nodes(part, f"{WAIT}_{i}_") for i, part in enumerate(converted)]
    nodes = [node for part in parts for node in part.node]
    initializers = [tensor for part in parts for tensor in part.initializer]
    tails = [part.output[0].name for part in parts]
    nodes.append(helper.make_node("Concat", tails, [WAIT], axis=1))
    return _build_model(nodes, initializers, features)


def measure_parity(
    data: bytes, wait: FittedForecast, observations: Observations
) -> dict[str, float]:
    """Measure the largest difference between graph and trees over some observations, by output."""
    (answer,) = open_session(data).run([WAIT], {INPUT: observations})
    return {WAIT: float(np.abs(answer - wait.predict(observations)).max())}


def _convert_trees(trees: Trees, features: int) -> list[Any]:
    """Convert trees to ONNX models that give the columns of the prediction, left to right. Raises
    TypeError for other trees."""
    if isinstance(trees, ForestTrees):
        row = [(INPUT, SklearnInput([None, features]))]
        opset = {"": OPSET, "ai.onnx.ml": OPSET_ML}
        return [convert_sklearn(trees.forest, initial_types=row, target_opset=opset)]
    if isinstance(trees, BoostedTrees):
        row = [(INPUT, XgboostInput([None, features]))]
        return [convert_xgboost(m, initial_types=row, target_opset=OPSET) for m in trees.models]
    raise TypeError(f"{type(trees).__name__} cannot be converted to ONNX")


def _rename_nodes(model: Any, prefix: str) -> Any:
    """Return the model's graph with a prefix on all its names except the shared input."""
    part = compose.add_prefix(model, prefix).graph
    input_name = part.input[0].name
    for node in part.node:
        node.input[:] = [INPUT if name == input_name else name for name in node.input]
    return part


def _build_model(nodes: list[Any], initializers: list[Any], features: int) -> bytes:
    row = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, features])
    outputs = [helper.make_tensor_value_info(WAIT, TensorProto.FLOAT, [None, None])]
    graph = helper.make_graph(nodes, "mirage", [row], outputs, initializers)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data
