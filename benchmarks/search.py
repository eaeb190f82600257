"""`chakra search` against simulating every plan that fits: the same answer, and what each costs.

python search.py          llama-3.1-8b on 16 GPUs, a minute
python search.py full     llama-3.1-70b on 256 GPUs of dgx-h100, half an hour
"""

from __future__ import annotations

import sys
import time

from chakrakit.exploration.bound import Bounds
from chakrakit.exploration.search import machine_for, search, space_of, workloads
from chakrakit.parallel import each
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Step
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

SMALL, FULL = ("llama-3.1-8b", 16), ("llama-3.1-70b", 256)


def measured(task):
    """Step time and bound of a plan in ns, and the CPU seconds of the simulation."""
    from chakrakit.machines import load_machine
    from chakrakit.machines.device import Roofline

    workload, name = task
    machine = load_machine(name)
    bounds = Bounds(machine, Roofline())
    found = bounds.of(workload)
    if found.memory_bytes > min(d.memory for d in machine.devices):
        return None
    began = time.process_time()
    step = simulate(generate(workload), machine, compute="roofline").makespan_ns
    return step, found.step_ps / 1000, time.process_time() - began


def main(model: str, gpus: int) -> None:
    step = Step(seq=4096, global_batch=gpus)
    began = time.process_time()
    found, _ = search(model_named(model), step, [gpus], "dgx-h100")
    cost = time.process_time() - began
    print(
        f"search: {found.best.step_ns / 1e6:.3f} ms in {cost:.1f} s of CPU, "
        f"{found.evaluated} simulated, {found.pruned} pruned"
    )
    name = machine_for("dgx-h100", gpus)
    plans = list(
        workloads(space_of(model_named(model), [gpus], step, {}), model_named(model), step)
    )
    outcomes = list(each(measured, [(w, name) for w in plans]))
    failed = [o.error for o in outcomes if o.error]
    rows = [o.value for o in outcomes if o.value]
    best = min(r[0] for r in rows)
    print(
        f"all {len(rows)} plans that fit of {len(plans)}: best {best / 1e6:.3f} ms in "
        f"{sum(r[2] for r in rows):.0f} s of CPU, {len(failed)} failed"
    )
    print(
        f"search is {100 * (found.best.step_ns / best - 1):.4f} % above it; "
        f"bound / step: worst {max(b / s for s, b, _ in rows):.6f}, "
        f"mean {sum(b / s for s, b, _ in rows) / len(rows):.4f}"
    )


if __name__ == "__main__":
    main(*(FULL if "full" in sys.argv else SMALL))
