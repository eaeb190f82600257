"""Traces run on real machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from chakrakit.api.inputs import Path_
from chakrakit.replayer.plan import ReplayOptions
from chakrakit.replayer.run import ReplayReport
from chakrakit.replayer.run import export as export_replay
from chakrakit.replayer.run import replay as replay_trace


def replay(
    trace: Path_,
    *,
    mode: Literal["full", "compute", "comm", "emulate"] = "full",
    device: Literal["cpu", "cuda"] = "cpu",
    nproc: int = 0,
    iterations: int = 10,
    warmup: int = 3,
    step: int = -1,
    gaps: bool = False,
    shrink: Literal["keep", "scale"] = "keep",
    backend: str = "",
    timeout: float = 300.0,
    export: Path_ | None = None,
    output: Path_ | None = None,
) -> ReplayReport | None:
    """Run a trace on real hardware, or only its communication.

    Parameters
    ----------
    trace
        A linked run, files of PyTorch's profiler, or an exported folder that was run.
    mode
        All operators, no communication, communication alone, or communication with waits for compute.
    device, backend
        `cpu` or `cuda`, and `gloo` or `nccl` (by default what suits the device).
    nproc
        Ranks; by default as many as were recorded.
    iterations, warmup
        How often the step is timed, and how often it runs before.
    step, gaps, shrink
        Which recorded step; whether to keep the host's own time; what is left in a smaller group.
    timeout
        Seconds to wait for a rank.
    export
        Write plans and runner to this folder instead of running them; `python FOLDER/run.py` runs them
        with PyTorch alone.
    output
        Where to write the replayed run.

    Returns
    -------
    The report; None with `export`, and on all but the first rank under torchrun.

    Examples
    --------
    >>> ck.replay("run", device="cuda").step_ns.median  # doctest: +SKIP

    """
    options = ReplayOptions(mode, device, nproc, gaps, shrink, step, backend)
    if export is not None:
        export_replay(os.fspath(trace), Path(export), options)
        return None
    return replay_trace(
        os.fspath(trace),
        options,
        iterations=iterations,
        warmup=warmup,
        timeout_s=timeout,
        output=None if output is None else Path(output),
    )
