"""The first tier compiles nothing: the simulator's kernels run as the Python that they are.

`make test` runs the same tests compiled as well (NUMBA_DISABLE_JIT=0).
"""

import os
import sys

# numba reads it once: what tests/conftest.py imports must leave numba alone.
if "NUMBA_DISABLE_JIT" not in os.environ:
    assert "numba" not in sys.modules, "too late to say that nothing is compiled"
    os.environ["NUMBA_DISABLE_JIT"] = "1"
