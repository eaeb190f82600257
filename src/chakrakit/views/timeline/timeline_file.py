"""A run's timeline as a file that other tools open."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Literal

from chakrakit.errors import ConfigError
from chakrakit.trace.codecs import Exported
from chakrakit.trace.sets import Run
from chakrakit.views.timeline.chrome import write_chrome
from chakrakit.views.timeline.perfetto import write_perfetto
from chakrakit.views.timeline.timeline import TimelineOptions


def timeline_format(
    path: str | os.PathLike[str], *, perfetto: bool = False, chrome: bool = False
) -> Literal["perfetto", "chrome"] | None:
    """The format of a timeline: the one asked for, else by the path's suffix; None for another file."""
    if perfetto and chrome:
        raise ConfigError("choose one of --perfetto and --chrome")
    suffix = PurePath(os.fspath(path).removesuffix(".gz")).suffix
    if perfetto or (not chrome and suffix == ".pftrace"):
        return "perfetto"
    return "chrome" if chrome or suffix == ".json" else None


def write_timeline(
    run: Run,
    path: str | os.PathLike[str],
    options: TimelineOptions | None = None,
    *,
    chrome: bool = False,
) -> Exported:
    """Writes the run in Perfetto's own format, or as Chrome JSON; `.gz` compresses."""
    write = write_chrome if chrome else write_perfetto
    return write(run, path, options)
