"""The first tier compiles nothing: the simulator's kernels run as the Python that they are, and
each SQL statement is compiled once for all tests.

`make test` runs the same tests compiled as well (NUMBA_DISABLE_JIT=0).
"""

import os
import sys

import pytest

from tests.support.compiled_statements import share_compiled_statements

# numba reads it once, when it is imported: nothing may have imported it by now.
if "NUMBA_DISABLE_JIT" not in os.environ:
    if "numba" in sys.modules:
        raise pytest.UsageError(
            "tests/unit runs uncompiled and the other tiers compiled: run it by itself (`pytest`), "
            "or all tiers with NUMBA_DISABLE_JIT=0 (`make test-simulated`)"
        )
    os.environ["NUMBA_DISABLE_JIT"] = "1"

share_compiled_statements()
