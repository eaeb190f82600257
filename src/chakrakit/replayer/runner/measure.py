"""Running a plan: checked once, warmed up, timed, and once more under the profiler."""

from __future__ import annotations

import gc
import gzip
import json
import os
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from .confine import confine_calls, limit_memory, limit_time
from .groups import end_groups, start_groups
from .guard import MemoryBudget, memory_budget
from .limits import ReplayError, blamed, check_memory
from .program import PlanProgram
from .settings import apply_settings, set_allocator, threads_of
from .storages import make_externals
from .threads import Threads

_DEVICE_ROWS = ("kernel", "gpu_memcpy", "gpu_memset")


def run_plan(plan: dict[str, Any], settings: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """Replay one rank; gives what was measured."""
    with blamed("the plan cannot be replayed"):
        return _replayed(plan, settings, out)


def _replayed(plan: dict[str, Any], settings: dict[str, Any], out: Path | None) -> dict[str, Any]:
    chosen = plan.get("settings", {})
    set_allocator(chosen)
    import torch

    device = choose_device(torch, plan)
    apply_settings(torch, chosen)
    if "OMP_NUM_THREADS" not in os.environ:
        share = max(1, (os.cpu_count() or 1) // local_ranks(plan))
        torch.set_num_threads(threads_of(chosen, share))
    budget = checked_budget(torch, plan, device)
    groups = start_groups(torch, plan, settings["timeout_s"])
    close_walls(plan, settings, budget, joined=bool(groups))
    try:
        with torch.inference_mode():
            return _Measurement(torch, plan, device, groups, settings, budget).result(out)
    finally:
        end_groups(torch)


def choose_device(torch: Any, plan: dict[str, Any]) -> str:
    """The device this rank works on."""
    if plan["device"] != "cuda":
        return "cpu"
    if not torch.cuda.is_available():
        raise ReplayError("the plan is for a GPU and this machine has none; use --device cpu")
    number = int(os.environ.get("LOCAL_RANK", plan["rank"])) % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def local_ranks(plan: dict[str, Any]) -> int:
    """How many ranks share this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", plan["world"]))


def checked_budget(torch: Any, plan: dict[str, Any], device: str) -> MemoryBudget:
    """What this rank may take; refuse a plan that says itself that it needs more."""
    budget = memory_budget(torch, device, local_ranks(plan))
    for kind, where in (("cpu", "this machine"), ("cuda", "the GPU")):
        check_memory(plan["memory"].get(kind, 0), budget.limits.get(kind, 0), where)
    return budget


def close_walls(
    plan: dict[str, Any], settings: dict[str, Any], budget: MemoryBudget, joined: bool
) -> None:
    """After PyTorch is loaded and the ranks are joined, and before anything of the plan is done."""
    if not settings.get("worker"):
        return
    # NCCL connects the ranks of a group when they first speak to each other, even if there is but one.
    connects = plan["backend"] == "nccl" and joined
    if limit_memory(budget.limits["cpu"], plan["device"] == "cuda"):
        settings["walls"].append("memory")
    if confine_calls(network=connects):
        settings["walls"].append("calls")


class _Measurement:
    """One rank's replay from first iteration to result."""

    def __init__(
        self,
        torch: Any,
        plan: dict[str, Any],
        device: str,
        groups: list[Any],
        settings: dict[str, Any],
        budget: MemoryBudget,
    ) -> None:
        self.torch, self.plan, self.device, self.settings = torch, plan, device, settings
        self.on_device = device.startswith("cuda")
        self.position = settings.get("position", [0, 0])
        self.program = PlanProgram(
            torch, plan, device, groups, budget, self.position, settings.get("generated", False)
        )
        make_externals(torch, plan, self.program.slots, device, self.program.guard)
        began = time.process_time()
        self.program.check(self._patience)
        self.program.capture()
        self._first_s = time.process_time() - began
        threads = [s.get("thread", 0) for s in plan["steps"]]
        needs = [s.get("needs", []) for s in plan["steps"]]
        self.threads = Threads(torch, self.program.steps, threads, needs, device)

    def _patience(self, step: dict[str, Any]) -> None:
        """Let a step of the first iteration take as long as a rank is waited for, on every thread."""
        waits = sum(step.get(k, 0) for k in ("host_ns", "device_ns", "gap_ns", "ns")) / 1e9
        if self.settings.get("worker"):
            limit_time(self.settings["timeout_s"] * self.torch.get_num_threads() + waits)

    def _iterate(self) -> None:
        self.position[0] += 1
        self.threads.run()

    def result(self, out: Path | None) -> dict[str, Any]:
        if self.settings.get("worker"):
            # Ten times what the first took, which was made slowly, and the same again for the recording.
            rounds = self.settings["warmup"] + self.settings["iterations"] + 3
            patience = self.settings["timeout_s"] * self.torch.get_num_threads()
            limit_time(10 * rounds * (self._first_s + 1) + patience)
        # Iterations leave no garbage, and looking for it takes longer than many a step.
        gc.collect()
        gc.freeze()
        gc.disable()
        for _ in range(self.settings["warmup"]):
            self._iterate()
        self._together()
        steps, host, cpu = self._timed()
        gc.enable()
        gc.unfreeze()
        kernels = self._profiled(out) if out is not None else {}
        self.threads.close()
        memory = self.torch.cuda.max_memory_allocated() if self.on_device else 0
        return {
            "rank": self.plan["rank"],
            "steps_ns": steps,
            "host_ns": host,
            "cpu_ns": cpu,
            "kernel_ns": sum(ns for _, ns in kernels.values()),
            "kernels": {name: list(found) for name, found in kernels.items()},
            "memory_bytes": memory,
            "not_covered": self.program.not_covered,
            "torch": self.torch.__version__,
            "device": self.torch.cuda.get_device_name() if self.on_device else "cpu",
        }

    def _together(self) -> None:
        """All ranks begin at the same time, with nothing left to do."""
        if self.on_device:
            self.torch.cuda.synchronize()
        if self.torch.distributed.is_available() and self.torch.distributed.is_initialized():
            self.torch.distributed.barrier()

    def _timed(self) -> tuple[list[int], list[int], list[int]]:
        """Nanoseconds of each iteration: from end to end, of the host alone, of the processor."""
        marks = [time.perf_counter_ns()]
        cpu = [time.process_time_ns()]
        events = [self._event()]
        for _ in range(self.settings["iterations"]):
            self._iterate()
            events.append(self._event())
            marks.append(time.perf_counter_ns())
            cpu.append(time.process_time_ns())
        host = [b - a for a, b in pairwise(marks)]
        used = [b - a for a, b in pairwise(cpu)]
        if not self.on_device:
            return host, host, used
        self.torch.cuda.synchronize()
        steps = [int(a.elapsed_time(b) * 1e6) for a, b in pairwise(events)]
        return steps, host, used

    def _event(self) -> Any:
        """A mark on the device's own clock: iterations follow each other without waiting."""
        if not self.on_device:
            return None
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _profiled(self, out: Path) -> dict[str, tuple[int, int]]:
        """One more iteration, recorded as Kineto; gives count and time of kernels by name."""
        profiler = self.torch.profiler
        kinds = [profiler.ProfilerActivity.CPU]
        if self.on_device:
            kinds.append(profiler.ProfilerActivity.CUDA)
        self.program.marking = True
        for recorded in (False, True):  # the first time, the profiler itself warms up
            self._together()
            mark = profiler.record_function(f"ProfilerStep#{int(recorded)}")
            with profiler.profile(activities=kinds, record_shapes=True) as record, mark:
                self.threads.run()
                if self.on_device:
                    self.torch.cuda.synchronize()
        self.program.marking = False
        raw = out / f"kineto_{self.plan['rank']}.json"
        record.export_chrome_trace(str(raw))
        data = raw.read_bytes()
        raw.unlink()
        packed = out / f"{raw.name}.gz"
        part = packed.with_suffix(".part")
        part.write_bytes(gzip.compress(data, 6))
        part.replace(packed)
        return _kernels(data)


def _kernels(data: bytes) -> dict[str, tuple[int, int]]:
    count: Counter[str] = Counter()
    time_ns: Counter[str] = Counter()
    for event in json.loads(data).get("traceEvents", []):
        if event.get("cat") in _DEVICE_ROWS:
            count[event["name"]] += 1
            time_ns[event["name"]] += round(event.get("dur", 0) * 1000)
    return {name: (count[name], time_ns[name]) for name in count}
