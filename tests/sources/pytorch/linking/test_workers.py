"""Many ranks linked on workers: the same run, one trace in memory at a time, nothing left behind."""

from __future__ import annotations

import gc
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chakrakit import CollectiveType, Run
from chakrakit.errors import ChakraError
from chakrakit.parallel import Workers
from chakrakit.sources.pytorch.communication.calls import Collective
from chakrakit.sources.pytorch.communication.clocks import Recorded, align_clocks
from chakrakit.sources.pytorch.linking.linker import LinkOptions, link
from chakrakit.sources.pytorch.read.files import Found, Source, _pair_up
from support import paths
from support.engines import ENGINES

DATA = paths.DATA / "pytorch"


def same(a: Run, b: Run) -> bool:
    return (
        a.bindings == b.bindings
        and a.groups == b.groups
        and a.card == b.card
        and all(a.trace(r).table.equals(b.trace(r).table) for r in a.ranks)
    )


@pytest.mark.parametrize("name", ["gpt_fsdp_tp_4", "gpt_pp_2", "cnn_ddp_2"])
def test_the_run_and_the_report_are_the_same(name: str, pickled: Workers, tmp_path: Path) -> None:
    run, report = link([DATA / name])
    spread, told = link([DATA / name], LinkOptions(engine="local", spool=tmp_path))
    assert same(run, spread)
    assert msgspec.json.encode(report) == msgspec.json.encode(told)


def test_what_waits_on_disk_goes_with_the_run(pickled: Workers, tmp_path: Path) -> None:
    run, _ = link([DATA / "gpt_pp_2"], LinkOptions(engine="local", spool=tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    assert len(run.trace(0))
    del run
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_and_leaves_nothing(pickled: Workers, tmp_path: Path) -> None:
    for name in ("et_0.json.gz", "kineto_1.json.gz"):
        (tmp_path / name).write_bytes((DATA / "gpt_pp_2" / name).read_bytes())
    (tmp_path / "spool").mkdir()
    with pytest.raises(ChakraError, match="et_0"):
        link(
            [tmp_path / "et_0.json.gz", tmp_path / "kineto_1.json.gz"],
            LinkOptions(engine="local", spool=tmp_path / "spool"),
        )
    gc.collect()
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same(engine: str, tmp_path: Path) -> None:
    run, _ = link([DATA / "gpt_pp_2"])
    spread, _ = link([DATA / "gpt_pp_2"], LinkOptions(engine=engine, jobs=2, spool=tmp_path))
    assert same(run, spread)


# --- what must not grow with the square of the ranks ----------------------------------------------


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


def collective(group: str, sequence: int) -> Collective:
    return Collective(0, 0, CollectiveType.ALL_REDUCE, "", group=group, sequence=sequence)


def oracle(ranks: dict[int, Recorded]) -> dict[int, int]:
    """Offsets by looking at every pair of ranks by itself, along the shortest chains."""
    ends: dict[int, dict[tuple[str | None, int], int]] = {
        r: {(c.group, c.sequence): e for c, e in zip(x.collectives, x.end, strict=True)}
        for r, x in ranks.items()
    }
    offset: dict[int, int] = {}
    for first in sorted(ranks):
        level = [] if first in offset else [first]
        offset.setdefault(first, 0)
        while level:
            reached = []
            for here in level:
                for other in sorted(set(ranks) - set(offset)):
                    shared = ends[here].keys() & ends[other].keys()
                    if ranks[here].host and ranks[here].host == ranks[other].host:
                        apart = 0
                    elif shared:
                        apart = int(np.median([ends[here][k] - ends[other][k] for k in shared]))
                    else:
                        continue
                    offset[other] = offset[here] + apart
                    reached.append(other)
            level = reached
    return offset


@pytest.mark.parametrize("seed", range(10))
def test_clocks_of_many_ranks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = {}
    for rank in range(12):
        groups = [f"g{i}" for i in range(6) if rng.random() < 0.3]
        calls = [collective(g, s) for g in groups for s in range(3)]
        ends = rng.integers(0, 1000, len(calls)).tolist()
        host = str(rng.choice(["", "a", "b"]))
        ranks[rank] = Recorded(calls, ends, ends, host)
    assert align_clocks(ranks).offset == oracle(ranks)
