"""Writes the runner's list of operators: `PYTHONPATH=src:tests python tests/support/replayable.py`.

The runner is copied to machines without chakrakit, and what it may call must not come with a plan, which
nobody need trust. So the list is a file of its own, written from the table here and compared with it by
tests/replayer/runner/test_operators.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import chakrakit
from chakrakit.operators import COMPOSITE, REFUSED, REPLAYED

FILE = Path(chakrakit.__file__).parent / "replayer" / "runner" / "operators.py"
WIDTH = 90


def module() -> str:
    """The text of the runner's module."""
    refused = "\n".join(f'    "{name}": "{why}",' for name, why in REFUSED.items())
    return f'''"""Which operators a replay may call, and which of them only call others.

Written from the table of operators by tests/support/replayable.py: change it there.
Names are those of ATen, without `aten::`. Whoever runs a plan checks against this list; a plan is not
trusted to have done so.
"""

from __future__ import annotations

_ALLOWED = """
{_block(REPLAYED)}
"""

_COMPOSITE = """
{_block(COMPOSITE)}
"""

ALLOWED = frozenset(_ALLOWED.split())
"""Operators that compute with tensors and nothing else."""

COMPOSITE = frozenset(_COMPOSITE.split())
"""Operators that only call others (`name`, or `name.overload` where overloads differ).

What they make inside is kept for the backward pass, so a replay calls what they called.
"""

REFUSED = {{
{refused}
}}
"""Operators whose presence in a trace is an attack or a mistake: the whole trace is refused."""
'''


def _block(names: Iterable[str]) -> str:
    text = " ".join(sorted(names))
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "    ")


if __name__ == "__main__":
    FILE.write_text(module())
