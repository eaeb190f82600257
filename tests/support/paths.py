"""Where the tests find what they read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
