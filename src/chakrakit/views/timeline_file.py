"""A run's timeline as a file that other tools open."""

from __future__ import annotations

import os

from chakrakit.trace.graph_export import Exported
from chakrakit.trace.run import Run
from chakrakit.views.chrome import write_chrome
from chakrakit.views.perfetto import write_perfetto
from chakrakit.views.timeline import Options


def write_timeline(
    run: Run, path: str | os.PathLike[str], options: Options | None = None, *, chrome: bool = False
) -> Exported:
    """Writes the run in Perfetto's own format, or as Chrome JSON; `.gz` compresses."""
    write = write_chrome if chrome else write_perfetto
    return write(run, path, options)
