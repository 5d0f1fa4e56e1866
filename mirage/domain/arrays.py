"""Names for numpy's arrays by what they hold. The shape stands in docstrings."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Texts = NDArray[np.object_]
"""An array of str."""

Observation = NDArray[np.float32]
"""[F]: the features that a model sees at one instant."""
Observations = NDArray[np.float32]
"""[..., F]: the features of several hand-overs or instants."""
