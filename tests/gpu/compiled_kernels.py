"""Compare the kernels of compiled programs that a capture gives with those that a GPU ran.

    python compiled_kernels.py record FOLDER NAME…    on the GPU, eager and compiled: one file per program
    python compiled_kernels.py capture FOLDER NAME…   on any machine: the same of captures, timed for an H200
    python compiled_kernels.py compare FOLDER         a line per program

The programs are those of `training_programs.py`. Of their steps after the third the one with the least time
in kernels counts, because other processes may use the GPU meanwhile.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import training_programs

MEASURED_STEPS = 4


def run(name: str, *, compiled: bool) -> None:
    """Run a program here, its model compiled in place or as it is."""
    import torch

    torch.manual_seed(0)
    training_programs.COMPILED = compiled
    training_programs.PROGRAMS[name]()


def record(folder: Path, name: str, *, compiled: bool) -> None:
    """Sum what each step's kernels take on this machine's GPU, and note the peak of memory."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    training_programs.STEPS = 3 + MEASURED_STEPS
    ends = 0
    steps: list[tuple[float, int, int]] = []
    profiler = profile(activities=[ProfilerActivity.CUDA])

    def at_end(optimizer: torch.optim.Optimizer, **options: Any) -> None:
        nonlocal ends, profiler
        ends += 1
        torch.cuda.synchronize()
        if ends > 3:
            profiler.stop()
            kernels = _kernels_ns(profiler)
            steps.append((sum(kernels) / 1e6, len(kernels), torch.cuda.max_memory_allocated()))
        if 3 <= ends < 3 + MEASURED_STEPS:
            torch.cuda.reset_peak_memory_stats()
            profiler = profile(activities=[ProfilerActivity.CUDA])
            profiler.start()
        zero_grad(optimizer, **options)

    zero_grad = torch.optim.Optimizer.zero_grad  # a hook of steps runs inside of a profiled range
    torch.optim.Optimizer.zero_grad = at_end
    run(name, compiled=compiled)
    torch.optim.Optimizer.zero_grad = zero_grad
    milliseconds, kernels, peak = min(steps)
    write(
        folder, name, "recorded", compiled=compiled, ms=milliseconds, kernels=kernels, peak=peak,
        torch=torch.__version__,
    )  # fmt: skip


def _kernels_ns(profiler: Any) -> list[int]:
    """What each kernel of a profile took."""
    return [
        event.duration_ns()
        for event in profiler.profiler.kineto_results.events()
        if str(event.device_type()).endswith("CUDA")
        and not event.name().startswith(("Memcpy", "Memset"))
    ]


def capture(folder: Path, name: str, *, compiled: bool) -> None:
    """Capture a program, and sum what its kernels take on an H200."""
    import chakrakit as ck
    from chakrakit.sources.capture import capture_command

    out = str(folder / f"{name}.{_kind(compiled)}")
    command = ["python", __file__, f"run-{_kind(compiled)}", str(folder), name]
    report = capture_command(command, out, ranks=1, device="h200")
    simulated = ck.simulate(out, machine="dgx-h200").to_dict()
    on_host = ck.read(out).trace(0).nodes["is_cpu_op"].to_pylist()
    write(
        folder, name, "captured", compiled=compiled, ms=simulated["ranks"][0]["compute_ns"] / 1e6,
        kernels=sum(not host for host in on_host), peak=report.kinds[0].peak_bytes,
    )  # fmt: skip


def write(folder: Path, name: str, manner: str, *, compiled: bool, **figures: Any) -> None:
    """Keep the figures of one run of a program."""
    (folder / f"{name}.{_kind(compiled)}.{manner}.json").write_text(json.dumps(figures))


def _kind(compiled: bool) -> str:
    return "compiled" if compiled else "eager"


def compare(folder: Path) -> None:
    """Print kernels' milliseconds, their number and peaks, captured and recorded."""
    for path in sorted(folder.glob("*.recorded.json")):
        recorded = json.loads(path.read_text())
        other = path.with_name(path.name.replace("recorded", "captured"))
        captured = json.loads(other.read_text()) if other.exists() else None
        texts = [
            f"{d['ms']:.2f} ms, {d['kernels']} kernels, {d['peak'] / 2**20:,.0f} MiB" if d else "-"
            for d in (captured, recorded)
        ]
        print(
            f"{path.name.removesuffix('.recorded.json')}: captured {texts[0]}; recorded {texts[1]}"
        )


def main(task: str, folder: Path, names: list[str]) -> None:
    """Do a task."""
    folder.mkdir(parents=True, exist_ok=True)
    if task == "compare":
        compare(folder)
    elif task.startswith("run-"):
        run(names[0], compiled=task == "run-compiled")
    else:
        for name in names:
            for compiled in (False, True):
                {"record": record, "capture": capture}[task](folder, name, compiled=compiled)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
