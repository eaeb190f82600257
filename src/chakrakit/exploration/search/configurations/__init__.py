"""From answer to action: the settings with which frameworks and engines run what a search found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chakrakit.exploration.search.configurations.serving import SERVING, VERSIONS
from chakrakit.exploration.search.configurations.training import TRAINING, Configuration


def write_configurations(configurations: Iterable[Configuration], folder: Path) -> list[str]:
    """Writes files into a folder; gives a line for each, with what it cannot say."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for made in configurations:
        (folder / made.file).write_text(made.text)
        lines.append("; ".join([f"wrote {folder / made.file}", *made.missing]))
    return lines


__all__ = ["SERVING", "TRAINING", "VERSIONS", "Configuration", "write_configurations"]
