"""Finding what to link: what each file is, and which belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chakrakit.sources.pytorch.read.files import Found, Source, _pair_up


def test_files_of_many_ranks_find_each_other() -> None:
    """By process; files that do not tell theirs, by what their names say."""
    order = np.random.default_rng(0).permutation(400).tolist()
    observers = [
        Source(Path(f"a/et_{r}.json"), "observer", 100 + r if r < 390 else -1, -1, True)
        for r in range(400)
    ]
    kinetos = [
        Source(Path(f"a/kineto_{r}.json"), "kineto", 100 + r if r < 390 else -1, r, True)
        for r in order
    ]
    found = Found([])
    _pair_up(observers, kinetos, found)
    assert [(p.rank, str(p.observer), str(p.kineto)) for p in found.pairs] == [
        (r, f"a/et_{r}.json", f"a/kineto_{r}.json") for r in range(400)
    ]
