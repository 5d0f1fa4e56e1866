"""onnxruntime, as Mirage opens it, keeps nothing in the user's home and sends nothing."""

import os
import subprocess
import sys
from pathlib import Path

_OPEN = """
from onnx import TensorProto, helper
from mirage.policies.models.onnx_session import open_session
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
print(open_session(model.SerializeToString()).get_inputs()[0].name)
"""


def test_onnxruntime_makes_no_id_of_the_host_and_no_events_to_send(tmp_path: Path) -> None:
    kept = {
        k: v for k, v in os.environ.items() if k not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", _OPEN],
        env=kept | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "x\n", done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
