"""The first tier compiles nothing: the simulator's kernels run as the Python that they are.

`make test` runs the same tests compiled as well (NUMBA_DISABLE_JIT=0).
"""

import os

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
