"""`src/chakrakit/__init__.pyi`: the public names, for type checkers.

`PYTHONPATH=src:tests python tests/support/stub.py` writes it.
"""

from __future__ import annotations

import chakrakit
from support.paths import ROOT

STUB = ROOT / "src" / "chakrakit" / "__init__.pyi"


def stub_text() -> str:
    """One import for each room, its names in order."""
    homes = sorted((home, name) for name, home in chakrakit._HOMES.items())
    lines = ["# Written by `make stubs` from _HOMES in __init__.py.", ""]
    lines += [f"from chakrakit.{home} import {name} as {name}" for home, name in homes]
    return "\n".join([*lines, "", "__version__: str", ""])


if __name__ == "__main__":
    STUB.write_text(stub_text())
