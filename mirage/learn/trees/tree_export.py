"""Converts fitted trees to one ONNX graph: an observation in, P(late) and the forecast of the wait
out."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper
from onnxmltools.convert import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as XgboostInput
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType as SklearnInput

from mirage.domain.arrays import Observations
from mirage.learn.trees.ensemble import EnsembleTrees
from mirage.learn.trees.tree_families import BoostedTrees, ForestTrees, Trees
from mirage.policy.models.onnx_session import INPUT, LATE, WAIT, open_session

OPSET, OPSET_ML, IR = 15, 3, 8
"""The ONNX operator set. Every onnxruntime of recent years supports it."""


def export_trees(late: Trees, wait: Trees, features: int) -> bytes:
    """Export both models as one ONNX graph with the outputs LATE [R, 1] and WAIT [R, Q or J]."""
    nodes: list[Any] = []
    initializers: list[Any] = []
    for name, trees in ((LATE, late), (WAIT, wait)):
        members = trees.members if isinstance(trees, EnsembleTrees) else (trees,)
        means = [f"{name}_of_{m}" for m in range(len(members))]
        for own, member in zip(means, members, strict=True):
            parts = [
                _rename_nodes(p, f"{own}_{i}_")
                for i, p in enumerate(_convert_trees(member, features))
            ]
            for part in parts:
                nodes += part.node
                initializers += part.initializer
            tails = [part.output[0].name for part in parts]
            nodes.append(helper.make_node("Concat", tails, [own], axis=1))
        nodes.append(helper.make_node("Mean", means, [name]))
    return _build_model(nodes, initializers, features)


def measure_parity(
    data: bytes, late: Trees, wait: Trees, observations: Observations
) -> dict[str, float]:
    """Measure the largest difference between graph and trees over some observations, by output."""
    found = open_session(data).run([LATE, WAIT], {INPUT: observations})
    wanted = late.predict(observations), wait.predict(observations)
    pairs = zip((LATE, WAIT), found, wanted, strict=True)
    return {name: float(np.abs(got - want).max()) for name, got, want in pairs}


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
    given = part.input[0].name
    for node in part.node:
        node.input[:] = [INPUT if name == given else name for name in node.input]
    return part


def _build_model(nodes: list[Any], initializers: list[Any], features: int) -> bytes:
    row = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, features])
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None])
        for name in (LATE, WAIT)
    ]
    made = helper.make_graph(nodes, "mirage", [row], outputs, initializers)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=IR)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data
