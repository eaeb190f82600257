"""`chakra capture` of FSDP2 × TP at 1,024 ranks with 32 layers of Llama-8B: CPU seconds and memory.

python capture.py [LAYERS]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "tests" / "sources" / "capture" / "programs" / "llama.py"
SIZES = "--hidden 4096 --ffn 14336 --heads 32 --kv-heads 8 --vocab 128256 --seq 4096"
PLAN = "--dp 128 --tp 8 --data fsdp"


def main(layers: str = "32") -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out")
        chakra = [sys.executable, "-c", "from chakrakit.commands import main; main()"]
        options = [*["--ranks", "1024", "--device", "h100", "--json", "-o"], out]
        script = ["--", "torchrun", str(PROGRAM), *PLAN.split(), *SIZES.split(), "--layers", layers]
        done = subprocess.run(
            [*chakra, "capture", *options, *script], check=True, stdout=subprocess.PIPE
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        told = subprocess.run([*chakra, "validate", out], check=False, capture_output=True)
    report = json.loads(done.stdout)
    kinds = [(k["ranks"], k["nodes"], k["parameters"]) for k in report["kinds"]]
    print(
        f"1,024 ranks, {layers} layers: {used.ru_utime + used.ru_stime:.1f} s of CPU, largest process "
        f"{used.ru_maxrss / 2**20:.2f} GiB; kinds (ranks, nodes, parameters): {kinds}"
    )
    print(told.stdout.decode().strip().splitlines()[-1])


if __name__ == "__main__":
    main(*sys.argv[1:])
