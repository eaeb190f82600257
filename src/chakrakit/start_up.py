"""What commands and workers, the processes that are chakrakit's own, do before anything else."""

from __future__ import annotations

import gc
import signal
import sys
from importlib.machinery import ModuleSpec

ENDING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")  # the last one comes when a terminal is closed
    if hasattr(signal, name)
)
"""Signals that tell a command to end and leave it time to take back what it began."""


class _NoPandas:
    """An import finder that says pandas is not installed, and leaves everything else to the others."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
        return None


def keep_pandas_out() -> None:
    """Makes pyarrow believe that pandas is not installed; only for commands and workers.

    The first conversion between pyarrow and NumPy imports pandas where it is installed: 0.3 s that no
    command needs. `to_pandas` looks for it again, and so goes on working.
    """
    import numpy as np
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.chunked_array([pa.array(np.zeros(1))]).to_numpy()
    finally:
        sys.meta_path.remove(finder)


NEW_OBJECTS = 100_000
"""Objects made between two searches for cycles of garbage, of which Python allows 700. Importing alone makes
some 95,000 that stay, and `simulate` took 4 % longer with 700; cycles of 100,000 objects hold about 10 MB."""


def collect_seldom() -> None:
    """Lets Python search for garbage less often; what nothing refers to is freed at once all the same."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
