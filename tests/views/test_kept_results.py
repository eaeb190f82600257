"""What pages and timelines contain, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import succeeded
from support.kept_results import checksum, compare
from support.recorded import linked


@pytest.mark.parametrize("name", ["gpt_pp_2", "cnn_ddp_2", "two_streams"])
def test_kept_pages_of_recordings(name: str, tmp_path: Path) -> None:
    ck.write(linked(name), tmp_path / "run")
    page, timeline = tmp_path / "page.html", tmp_path / "timeline.json"
    succeeded("report", tmp_path / "run", "-o", page)
    succeeded("export", tmp_path / "run", timeline)
    text = page.read_text().replace(str(tmp_path), "")  # advice names the folder in its commands
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    figures = {
        "pictures": [checksum(p) for p in pictures],
        "tables": [checksum(t) for t in tables],
        "timeline": timeline.read_text().replace(str(tmp_path), ""),
    }
    compare(f"drawn-{name}", {k: list(v) if isinstance(v, list) else v for k, v in figures.items()})
