"""Names for numpy's arrays by what they hold. A name says no shape: a docstring does."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Texts = NDArray[np.object_]
"""Of str."""

Observation = NDArray[np.float32]
"""[F]: what a model sees at one instant."""
Observations = NDArray[np.float32]
"""[..., F]: of several handovers or instants."""
