"""Prints the changelog's section of a tag; refuses a tag that the package or the changelog does not know."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes_of(tag: str, changelog: str, version: str) -> str:
    """The section `## [X.Y.Z]` of the changelog, where `tag` is `vX.Y.Z` and the package says X.Y.Z."""
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag} and the package is {version}: change one of them")
    section = re.search(
        rf"^## \[?{re.escape(version)}\]?.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if section is None:
        sys.exit(f"CHANGELOG.md has no section {version}: rename 'Unreleased' and date it")
    return section[1].strip()


def version_of(package: str) -> str:
    """What `chakrakit/__init__.py` says, the one place of the version."""
    stated = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    assert stated is not None
    return stated[1]


if __name__ == "__main__":
    version = version_of((ROOT / "src/chakrakit/__init__.py").read_text())
    print(notes_of(sys.argv[1], (ROOT / "CHANGELOG.md").read_text(), version))  # noqa: T201
