"""From what a command line says to Runs and options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chakrakit.errors import ConfigError, TraceError
from chakrakit.sources.jobtraces import is_job_trace, read_job_trace
from chakrakit.trace.files import STDIO
from chakrakit.trace.sets import Card, Run, TraceSet
from chakrakit.trace.storage import read


def read_run(path: str) -> Run:
    """A run behind a path; traces whose nodes have times count as one."""
    found = read_job_trace(path) if is_job_trace(path) else as_run(read(path), path)
    return found.with_card(found.card.replace(name=name_of(found, path)))


def parse_ranks(text: str) -> list[int]:
    """The ranks of `--ranks 0,1,5`; none where nothing is said."""
    try:
        return [int(r) for r in text.split(",")] if text else []
    except ValueError:
        raise ConfigError(f"--ranks {text!r}: give numbers, as in 0,1,5") from None


def name_of(run: Run, path: str) -> str:
    """What its card calls a run; else what its path does."""
    unnamed = run.card.name == Card().name and path != STDIO
    return Path(path).name if unnamed else run.card.name


def as_run(traces: TraceSet, path: str = "") -> Run:
    """The traces as a run, with the times their nodes say."""
    if isinstance(traces, Run):
        return traces
    if traces.card.passes:
        raise TraceError(
            f"{path or traces!r} was changed ({', '.join(traces.card.passes)}) and has no times of its own "
            "yet: simulate it first (chakra simulate -o RUN)"
        )
    run = Run(traces.bodies, traces.bindings, traces.groups, traces.card)
    if not any(run.body(rank).is_timed for rank in run.ranks[:1]):
        raise TraceError(
            f"{path or traces!r} has no times: link a recording (chakra link) or simulate it "
            "(chakra simulate -o RUN) first"
        )
    return run


def pairs(given: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """`what=k` texts as pairs."""
    out = []
    for text in given:
        what, equals, factor = text.rpartition("=")
        try:
            out.append((what, float(factor)))
        except ValueError:
            equals = ""
        if not equals or not what:
            raise ConfigError(f"--faster {text!r}: give WHAT=K, as in compute=2")
    return tuple(out)


def facts_of(run: Run, path: str = "") -> dict[str, str]:
    """Lines about where a run comes from."""
    facts = {"": path} if path else {}
    facts["ranks:"] = f"{len(run):,}" + (f" of {run.world_size:,}" if run.missing_ranks else "")
    if run.card.tool:
        facts["made by"] = run.card.tool
    engine = run.card.settings.get("engine")
    if engine:
        facts["engine:"] = str(engine)
    return facts
