"""How kernels are compiled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.domain.arrays import Ints
from mirage.simulator.arrays import jit


def test_constants_of_one_kind_share_one_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "CACHE", str(tmp_path))

    @jit.inline_kernel
    def more(counts: Ints, by: int) -> None:
        counts[0] += by

    @jit.kernel
    def thrice(counts: Ints, by: int) -> None:
        more(counts, 1)
        more(counts, 2)
        more(counts, by)

    counts = np.zeros(1, dtype=np.int64)
    thrice(counts, 4)
    assert counts[0] == 7
    dispatcher: Any = more
    assert len(dispatcher.signatures) == 1
