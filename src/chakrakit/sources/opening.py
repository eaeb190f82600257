"""What lies at a path that is no trace of Chakra: recordings to link, or a workload of another tool."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chakrakit.sources.foreign import WorkloadFormat, workload_of
from chakrakit.sources.inputs import Recognised, files_of, link, recognise, refuse_unread
from chakrakit.sources.nsys import is_parquet_export
from chakrakit.sources.pytorch.linking import LinkOptions
from chakrakit.sources.pytorch.read import read_bytes, read_head
from chakrakit.trace.sets import TraceSet

_OWN = re.compile(r".+\.(et|et\.gz|et\.zst|parquet|chakra|feeder\.json)$")
"""Names of traces' files that chakrakit or another writer of Chakra traces made."""

WORKLOAD_TOOLS = frozenset({"GOAL", "ASTRA-sim 1.0", "SimAI", "AICB", "PARAM", "MSCCL", "MSCCL++"})
"""What the cards of workloads say that they are from."""


@dataclass(frozen=True)
class Raw:
    """Files at one path that have to be linked or translated before they are a trace."""

    path: Path
    files: list[Path]
    recordings: list[Recognised]
    workload: WorkloadFormat | None = None

    @cached_property
    def description(self) -> str:
        """What it is, in words: `8 recordings of PyTorch's observer or Kineto`."""
        if self.workload is not None:
            return f"a workload of {self.workload.name}"
        # The tables of an export to Parquet are one recording.
        places = {
            (str(r.format), r.path.parent if r.path.suffix == ".parquet" else r.path)
            for r in self.recordings
            if r.format is not None
        }
        counts = Counter(name for name, _ in places)
        return ", ".join(
            f"{n} recording{'s' * (n > 1)} of {name}" for name, n in counts.most_common()
        )

    def traces(self, options: LinkOptions | None = None) -> TraceSet:
        """The run of its recordings, or the traces of its workload."""
        if self.workload is not None:
            return self.workload.read({str(file): read_bytes(file) for file in self.files})
        run, _ = link(self.files, options)
        return run


def raw_at(path: Path) -> Raw | None:
    """The recordings or the workload at a path; None if it is a trace, or nothing that is known."""
    if not path.exists() or _OWN.match(path.name):
        return None
    files = [path] if path.is_file() else files_of([path])
    own = path.is_dir() and any(_OWN.match(file.name) for file in files if file.parent == path)
    if own and not is_parquet_export(path):
        return None
    recognised = [recognise(file) for file in files]
    recordings = [r for r in recognised if r.format is not None]
    if recordings:
        return Raw(path, [path] if path.is_file() else files, recordings)
    workloads = [(file, w) for file in files if (w := _workload(file)) is not None]
    if not workloads:
        refuse_unread(recognised)
        return None
    format = workloads[0][1]
    return Raw(path, [file for file, w in workloads if w == format], [], format)


def _workload(file: Path) -> WorkloadFormat | None:
    try:
        return workload_of(read_head(file))
    except zlib.error:
        return None
