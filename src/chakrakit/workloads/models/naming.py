"""Models by name: from the catalog, or from a Hugging Face `config.json`."""

from __future__ import annotations

from pathlib import Path

from chakrakit.errors import ConfigError, nearest
from chakrakit.workloads.description import Model
from chakrakit.workloads.models.huggingface import read_config
from chakrakit.workloads.models.published import catalog


def named(name: str) -> Model:
    """A model by its name in the catalog, or from a `config.json` (or the directory that has one)."""
    if not isinstance(name, str):  # descriptions come from files
        raise ConfigError(f"a model is named by a text, not by {name!r:.40}")
    known = catalog()
    spelled = {_letters(k): k for k in known}
    if _letters(name) in spelled:
        return known[spelled[_letters(name)]]
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return read_config(path)
    raise ConfigError(
        f"no model {name!r}; {nearest(name, known)} See `chakra models`; a path to a Hugging Face "
        "config.json works too"
    )


def _letters(name: str) -> str:
    """A name however it is hyphenated: llama-3.1-8b and llama3.1-8b are one."""
    return "".join(c for c in name.lower() if c.isalnum() or c == ".")
