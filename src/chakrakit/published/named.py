"""Studies by their id: every file `a01_name.py` in the folder of a family is one."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from chakrakit.errors import ConfigError, nearest
from chakrakit.published.study import Study

_FILE = re.compile(r"([a-z]\d\d)_\w+")


@cache
def study_modules() -> dict[str, str]:
    """Id → module, in the order of the ids; nothing is imported."""
    here = Path(__file__).parent
    files = [f for f in here.glob("*/*.py") if _FILE.fullmatch(f.stem)]
    return {
        f.stem[:3].upper(): f"chakrakit.published.{f.parent.name}.{f.stem}"
        for f in sorted(files, key=lambda f: f.stem)
    }


def named_study(name: str) -> Study:
    """The study with this id."""
    modules = study_modules()
    if name.upper() not in modules:
        hint = nearest(name.upper(), modules, len(modules))
        raise ConfigError(f"there is no study {name!r}; {hint}; `chakra studies` lists them")
    study: Study = import_module(modules[name.upper()]).STUDY
    return study
