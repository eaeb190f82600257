"""docs/accuracy.md as sections, each with the commit that it was measured at."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

HEAD = """\
# Accuracy

How close predictions come to real machines. `make accuracy DATA=DIR` generates this page from
`benchmarks/accuracy`, one file per section. DIR holds the measurements, which are not part of the project.
Whether the simulator computes what its rules say is another question, which `tests/simulator` answers with
closed forms and a slow second implementation. Errors are predicted / measured − 1; "absolute" errors are
their absolute values, and "90 %" is the 90th percentile of those.
"""
WIDTH = 110
LOST = "**Not measured in this run**"
UNKNOWN = "a commit that is not known"
_STAMP = re.compile(r"<!-- measured at (?P<commit>.+), (?P<day>[\d-]+) -->\n\n")


class Stamp(NamedTuple):
    """When and with what a section was measured."""

    commit: str
    day: str

    @classmethod
    def now(cls, inside: Path) -> Stamp:
        """Today, at the commit that is checked out around a folder or that COMMIT names."""
        commit = os.environ.get("COMMIT") or _checked_out(inside) or UNKNOWN
        return cls(commit, f"{datetime.now(UTC):%Y-%m-%d}")

    @property
    def comment(self) -> str:
        """The line of a section that says it."""
        return f"<!-- measured at {self.commit}, {self.day} -->\n\n"


def _checked_out(inside: Path) -> str:
    """The commit, with a word where what computes predictions differs from it; empty without a repository."""
    commit = _git(inside, "rev-parse", "--short", "HEAD")
    changed = _git(inside, "status", "--porcelain", "--", ":/src", ":/benchmarks")
    return f"{commit} with changes" if commit and changed else commit


def _git(inside: Path, *words: str) -> str:
    command = ["git", "-C", str(inside), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@dataclass
class Page:
    """Sections by title in the order of the titles; those of other titles are dropped."""

    titles: list[str]
    sections: dict[str, str] = field(default_factory=dict)
    """What follows a title, with the comment that says when it was measured."""

    @classmethod
    def read(cls, path: Path, titles: list[str]) -> Page:
        """The page as it is; empty where there is none."""
        page = cls(titles)
        if path.exists():
            for part in re.split(r"(?m)^## ", path.read_text())[1:]:
                title, _, text = part.partition("\n")
                if title in titles:
                    page.sections[title] = text.strip() + "\n"
        return page

    def put(self, title: str, text: str, stamp: Stamp) -> None:
        """Replaces a section."""
        self.sections[title] = stamp.comment + text + "\n"

    def lose(self, title: str, why: str, stamp: Stamp) -> None:
        """Replaces a section by the reason why there is none."""
        self.put(title, f"{LOST}: {why}", stamp)

    def write(self, path: Path) -> None:
        """Writes the page."""
        present = [t for t in self.titles if t in self.sections]
        parts = (f"## {title}\n\n{self.sections[title]}" for title in present)
        path.write_text("\n".join([f"{HEAD}\n{self._measured_at()}", *parts]))

    def _measured_at(self) -> str:
        """Which commits sections are of, in the introduction's words."""
        by_stamp: dict[tuple[str, str], list[str]] = {}
        for title in (t for t in self.titles if t in self.sections):
            found = _STAMP.match(self.sections[title])
            stamp = (found["commit"], found["day"]) if found else (UNKNOWN, "")
            by_stamp.setdefault(stamp, []).append(title)
        missing = [t for t in self.titles if LOST in self.sections.get(t, LOST)]
        said = [_of(*stamp) for stamp in by_stamp]
        if len(by_stamp) == 1:
            some = "Sections" if missing else "All sections"
            text = f"{some} were measured in one run, at {said[0]}."
        else:
            names = ("; ".join(f"“{t}”" for t in titles) for titles in by_stamp.values())
            pairs = (f"at {where}: {what}" for where, what in zip(said, names, strict=True))
            text = f"Sections were not all measured in one run: {', '.join(pairs)}."
        if missing:
            text += f" Not measured: {', '.join(missing)}."
        return fill(text, WIDTH, break_on_hyphens=False) + "\n"


def _of(commit: str, day: str) -> str:
    return f"{commit} ({day})" if day else commit
