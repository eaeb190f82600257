"""Launch what Inductor generated from its recorded PTX and compare with what Inductor's own launch gives.

python generated_kernels.py    on a machine with a GPU, PyTorch and chakrakit
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from training_programs import GPT

from chakrakit.replayer.runner.kernels import GeneratedKernel
from chakrakit.sources.pytorch.recorder.generated import generated_code


def launches(compiled: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Every launch of a kernel of Triton in one forward and backward, with its arguments."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    seen: list[tuple[Any, tuple[Any, ...]]] = []
    run = CachingAutotuner.run

    def noted(self: Any, *arguments: Any, stream: Any, **others: Any) -> Any:
        seen.append((self, arguments))
        return run(self, *arguments, stream=stream, **others)

    CachingAutotuner.run = noted
    try:
        compiled().backward()
    finally:
        CachingAutotuner.run = run
    return seen


def main() -> int:
    torch.manual_seed(0)
    model = torch.compile(GPT(layers=2).to("cuda"))
    ids = torch.randint(50304, (4, 512), device="cuda")

    def loss() -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    loss().backward()
    code = generated_code()
    print(
        f"{len(code)} kernels recorded, {sum(len(c['ptx']) for c in code.values()):,} bytes of PTX"
    )
    wrong = 0
    done: set[str] = set()
    for kernel, arguments in launches(loss):
        stem = Path(str(kernel.filename)).stem
        if stem in done:
            continue
        done.add(stem)
        found = code.get(stem)
        if found is None:
            print(f"{kernel.fn.__name__}: not recorded ({stem})")
            wrong += 1
            continue
        wrong += not same(kernel, arguments, found)
    print(f"{len(done)} kernels launched, {wrong} wrong")
    return wrong


def same(kernel: Any, arguments: tuple[Any, ...], code: dict[str, Any]) -> bool:
    """Whether both launches leave the same in all tensors that the kernel was given."""
    first = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    second = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    launcher = kernel.launchers[0]
    stream = torch.cuda.current_stream().cuda_stream
    grid = recorded_grid(lambda: kernel.run(*first, stream=stream))
    kinds = [kind for _, kind in code["arguments"]]
    if len(kinds) != len(arguments):
        print(f"{code['name']}: {code['arguments']} for {len(arguments)} arguments")
        return False
    values = [
        a.data_ptr() if isinstance(a, torch.Tensor) else a
        for a, kind in zip(second, kinds, strict=True)
        if kind != "constexpr"
    ]
    loaded = GeneratedKernel(code["ptx"], code["name"], code["threads"], code["shared"])
    loaded.launch(grid, stream, values)
    torch.cuda.synchronize()
    equal = all(
        torch.equal(a, b) or bool(torch.allclose(a.float(), b.float(), equal_nan=True))
        for a, b in zip(first, second, strict=True)
        if isinstance(a, torch.Tensor)
    )
    print(
        f"{'ok   ' if equal else 'WRONG'} {code['name'][:70]} grid {grid} {launcher.config.kwargs} {kinds}"
    )
    return equal


def recorded_grid(run: Any) -> list[int]:
    """The grid of the one kernel that `run` launches, as Kineto records it."""
    import json
    import tempfile

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    return next(e["args"]["grid"] for e in events if e.get("cat") == "kernel")


if __name__ == "__main__":
    sys.exit(min(1, main()))
