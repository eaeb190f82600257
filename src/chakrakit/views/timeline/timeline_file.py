"""A run's timeline as a file that other tools open."""

from __future__ import annotations

import os

from chakrakit.trace.codecs import Exported
from chakrakit.trace.sets import Run
from chakrakit.views.timeline.chrome import write_chrome
from chakrakit.views.timeline.perfetto import write_perfetto
from chakrakit.views.timeline.timeline import TimelineOptions


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
