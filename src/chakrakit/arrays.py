"""The types of arrays: one name for each element type, used everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]
Texts = NDArray[np.object_]
