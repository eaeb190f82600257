"""Files that are moved into place when they are whole."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any


def compress(path: Path) -> None:
    """`path.json` to `path.json.gz`, moved into place when whole."""
    part = path.with_name(path.name + ".gz.part")
    with path.open("rb") as source, gzip.open(part, "wb", 6) as target:
        shutil.copyfileobj(source, target)
    part.replace(path.with_name(path.name + ".gz"))
    path.unlink()


def write_json(path: Path, content: Any) -> None:
    """Readable, and moved into place when whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
