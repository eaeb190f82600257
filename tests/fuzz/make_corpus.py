"""Writes the corpus: small random files of every kind of field.

python tests/fuzz/make_corpus.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from support import random_messages as random  # noqa: E402
from support.oracle import bodies_of, file_of  # noqa: E402


def main() -> None:
    for seed in range(12):
        rng = Random(seed)
        bodies = [random.metadata(rng).SerializeToString(deterministic=True)]
        bodies += [random.node(rng).SerializeToString(deterministic=True) for _ in range(4)]
        if seed % 2:
            schemas = [random.METADATA] + [random.NODE] * 4
            bodies = [random.noisy(rng, b, s) for b, s in zip(bodies, schemas, strict=True)]
        (HERE / "corpus" / f"random.{seed}.et").write_bytes(file_of(bodies))
    stage = (HERE.parent / "data" / "et" / "stage.0.et").read_bytes()
    (HERE / "corpus" / "stage.et").write_bytes(file_of(list(bodies_of(stage))[:8]))


if __name__ == "__main__":
    main()
