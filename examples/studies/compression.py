"""Gradients compressed on their way, against plain collectives.

Claim (NCCLZ: quantization before a collective, entropy coding inside it, overlapped): up to 9.65 times faster
than plain collectives, and up to 3.34 times faster than libraries that compress, send and decompress in turn.

Prediction, written before the first run:

1. Small messages lose at any ratio: they are latency, and compression adds steps. The crossover is
   between 100 kB and 10 MB, and lower on slower links.
2. For large messages the gain is at most the ratio, and at most what the codec's rate over the link's allows;
   with a codec no faster than a few times the link, compression loses at any size.
3. 9.65 times is reached only with a ratio of 10, links of 10 Gb/s or so, a codec hundreds of times as fast,
   and a plain side that does not reduce within nodes first. Against the best plain algorithm it is less.
4. Cutting messages so that coding and sending overlap gains under 3 times over doing them in turn (three
   stages can at best be in balance), and nothing where the codec is much faster or slower than the wire.
5. In a training step that hides its communication behind compute the gain is 0 or less: codecs take compute
   from the backward pass. It comes back as the network becomes the bottleneck.

Fairness. Both sides choose their algorithms, how many pieces a message is cut into and, in a step, how many
layers share a bucket. Plain reduction is one collective (`plain`), or three whose pieces follow each other:
within nodes, across them, within nodes (`plain nested`). As sums of coded numbers are not coded sums, the
compressed side has schemes of its own: `flat` exchanges coded parts all to all, decodes and adds, and gathers
the coded result; `nested` reduces plainly within a node first and codes only what crosses nodes; `summable`,
shown apart, assumes a code whose sums can be taken on the way. Ratio and codec rate are not chosen but given,
and all are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from study import Row, Study, markdown, prediction, span

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import Machine
from chakrakit.passes.comm import Comm
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.views.lines import Line, line_chart

NODES, WIDTH = 4, 8
RANKS = NODES * WIDTH
LAYERS, LAYER_NS, LAYER_BYTES = 16, 2_000_000, 100_000_000
"""A step: backward passes of 2 ms per layer, each leaving 100 MB of gradients."""


@dataclass(frozen=True)
class Codec:
    """`ratio` bytes become one, at `rate` GB/s of plain bytes."""

    ratio: float
    rate: float


@dataclass(frozen=True)
class Setting:
    """How gradients are reduced; `parts` a message is cut into, `fused` layers a bucket holds."""

    scheme: str
    algorithm: str = "auto"
    parts: int = 1
    fused: int = 1


# --- the workload -----------------------------------------------------------------------------------

STAGES = {
    "plain": [("all-reduce", "", 1)],
    "plain nested": [
        ("reduce-scatter", "in", 1),
        ("all-reduce", "out", WIDTH),
        ("all-gather", "in", WIDTH),
    ],
    "summable": [("all-reduce", "", 1)],
    "flat": [("all-to-all", "", 1), ("all-gather", "", RANKS)],
    "nested": [
        ("reduce-scatter", "in", 1),
        ("all-to-all", "out", WIDTH),
        ("all-gather", "out", RANKS),
        ("all-gather", "in", WIDTH),
    ],
}
"""The collectives of each scheme: type, group, and what part of the gradients a rank puts in."""
CODED = {"summable": (0,), "flat": (0, 1), "nested": (1, 2)}
TYPES = {
    "all-reduce": CollectiveType.ALL_REDUCE,
    "all-to-all": CollectiveType.ALL_TO_ALL,
    "all-gather": CollectiveType.ALL_GATHER,
    "reduce-scatter": CollectiveType.REDUCE_SCATTER,
}
STREAM = 20
"""Of the first stage; each has one of its own, so that pieces follow each other through them."""


def reduction(t: TraceBuilder, size: int, setting: Setting, deps: Sequence[int]) -> list[int]:
    """The collectives of one message; the last of each piece."""
    ends = []
    for _ in range(setting.parts):
        before = list(deps)
        for number, (kind, group, share) in enumerate(STAGES[setting.scheme]):
            bytes_ = max(1, size // setting.parts // share)
            before = [
                t.collective(
                    f"{kind} {number}",
                    TYPES[kind],
                    bytes_,
                    stream=STREAM + number,
                    pg_name=f"{group or 'all'}",
                    phase=f"{number}",
                    deps=before,
                )
            ]
        ends += before
    return ends


def spread(t: TraceBuilder) -> TraceSet:
    """The same on all ranks, with groups within nodes and of those in the same place of every node."""
    groups: dict[str, list[int]] = {"all": list(range(RANKS))}
    for rank in range(RANKS):
        groups.setdefault(f"in{rank // WIDTH}", []).append(rank)
        groups.setdefault(f"out{rank % WIDTH}", []).append(rank)
    bindings = {
        r: Binding(0, {"in": f"in{r // WIDTH}", "out": f"out{r % WIDTH}"}) for r in range(RANKS)
    }
    return TraceSet([t.build()], bindings, Groups(groups))


def coded(traces: TraceSet, setting: Setting, codec: Codec) -> TraceSet:
    """The stages that are coded get encoders and decoders, on streams of their own."""
    for number in CODED[setting.scheme]:
        traces = traces | Comm(
            action="compress",
            phases=(f"{number}",),
            ratio=codec.ratio,
            throughput=f"{codec.rate} GB/s",
            stream=40 + 2 * number,
        )
    return traces


@cache
def message(size: int, setting: Setting, codec: Codec | None) -> TraceSet:
    """One reduction."""
    t = TraceBuilder()
    reduction(t, size, setting, ())
    return coded(spread(t), setting, codec) if codec else spread(t)


@cache
def step(setting: Setting, codec: Codec | None) -> TraceSet:
    """A backward pass whose gradients are reduced as they come, and the optimizer."""
    t = TraceBuilder()
    ends: list[int] = []
    for layer in range(LAYERS):
        last = t.comp("backward", duration_ns=LAYER_NS, stream=1)
        if (layer + 1) % setting.fused == 0:
            ends += reduction(t, setting.fused * LAYER_BYTES, setting, [last])
    t.comp("optimizer", duration_ns=LAYER_NS, stream=1, deps=ends)
    return coded(spread(t), setting, codec) if codec else spread(t)


# --- the machine ------------------------------------------------------------------------------------


@cache
def machine(link: float) -> Machine:
    """Nodes of eight behind one switch each, and `link` Gb/s a device between them."""
    inside = {"topology": "switch", "size": WIDTH, "bandwidth": "450 GB/s", "latency": "300 ns"}
    outside = {
        "topology": "switch",
        "size": NODES,
        "bandwidth": f"{link} Gb/s",
        "latency": "1350 ns",
    }
    text = {"network": [inside, outside], "software": {"collective_overhead": "6.6 us"}}
    return parse_machine(text, f"{link:g} Gb/s")


ALGORITHMS: dict[str, dict[str, str]] = {
    "auto": {},
    "ring": {"all-reduce": "ring", "all-gather": "ring", "all-to-all": "pairwise"},
    "halving": {"all-reduce": "halving-doubling", "all-gather": "halving-doubling"},
    "tree": {"all-reduce": "double-tree"},
    "hierarchical": {"all-reduce": "hierarchical"},
    "direct": {"all-reduce": "direct", "all-gather": "direct", "all-to-all": "direct"},
}
USABLE = {
    "plain": tuple(ALGORITHMS),
    "plain nested": ("auto", "ring", "halving"),
    "summable": ("auto", "ring", "hierarchical"),
    "flat": ("auto", "ring", "halving"),
    "nested": ("auto", "ring"),
}


def time_us(traces: TraceSet, link: float, algorithm: str) -> float:
    """Microseconds until all is done; codecs share the device with whatever else runs on it."""
    options = SimulationOptions(algorithms=Algorithms(ALGORITHMS[algorithm]), share_compute=True)
    return run(traces, machine(link), options).makespan_ps * 1e-6


# --- the study --------------------------------------------------------------------------------------

SIZES = (4_000, 64_000, 1_000_000, 16_000_000, 256_000_000)
LINKS = (10, 50, 100, 400, 1600)
PLAIN = ("plain", "plain nested")
CODECS = tuple(Codec(ratio, rate) for ratio, rate in product((2, 4, 10), (50, 200, 800)))


def settings(
    schemes: Sequence[str], parts: Sequence[int], fused: Sequence[int] = (1,)
) -> list[Setting]:
    """All combinations."""
    return [
        Setting(scheme, algorithm, p, f)
        for scheme in schemes
        for algorithm, p, f in product(USABLE[scheme], parts, fused)
    ]


def measure(quick: bool) -> list[Row]:
    """Single messages, and steps."""
    sizes, links, codecs = (
        (SIZES[:4:3], LINKS[:4:3], CODECS[-1:]) if quick else (SIZES, LINKS, CODECS)
    )
    rows = [row for size, link in product(sizes, links) for row in messages(size, link, codecs)]
    return rows + [row for link in links for row in steps(link, codecs, quick)]


def messages(size: int, link: float, codecs: Sequence[Codec]) -> Iterator[Row]:
    """The best plain one, and for each codec and scheme the best in turn and the best in pieces."""
    yield best(size, link, None, "plain", settings(PLAIN, (1, 4, 16)))
    for codec, scheme in product(codecs, CODED):
        yield best(size, link, codec, "in turn", settings([scheme], (1,)))
        yield best(size, link, codec, "in pieces", settings([scheme], (1, 4, 16)))


def steps(link: float, codecs: Sequence[Codec], quick: bool) -> Iterator[Row]:
    """The best plain step and the best compressed one of each scheme."""
    some = ((1,), (1,)) if quick else ((1, 4), (1, 4))
    yield best(0, link, None, "plain", settings(PLAIN, *some))
    for codec, scheme in product(codecs, CODED):
        yield best(0, link, codec, "in pieces", settings([scheme], *some))


def best(size: int, link: float, codec: Codec | None, side: str, found: list[Setting]) -> Row:
    """The best setting for a message, or for a step (of size 0)."""
    times = {}
    for s in found:
        made = replace(s, algorithm="")  # the traces are the same with any
        traces = message(size, made, codec) if size else step(made, codec)
        times[s] = time_us(traces, link, s.algorithm)
    s = min(times, key=lambda s: times[s])
    given = {"ratio": codec.ratio if codec else 1, "codec_gb_s": codec.rate if codec else 0}
    return {
        "what": "message" if size else "step",
        "bytes": size,
        "link_gbit_s": link,
        **given,
        "side": side,
        **vars(s),
        "time_us": round(times[s], 3),
    }


# --- what it says -----------------------------------------------------------------------------------

Gains = dict[tuple[int, float, float, float], float]
"""(bytes, link, ratio, codec rate) → plain time over compressed time."""
REAL = ("flat", "nested")
"""Schemes that any codec can use."""


def gains(
    rows: list[Row], what: str, schemes: Sequence[str] = REAL, side: str = "in pieces"
) -> Gains:
    """How many times as long the best plain one takes as the best of the schemes."""
    plain = {
        (r["bytes"], r["link_gbit_s"]): r["time_us"]
        for r in rows
        if r["what"] == what and r["side"] == "plain"
    }
    found: Gains = {}
    for r in rows:
        if r["what"] == what and r["side"] == side and r["scheme"] in schemes:
            key = (r["bytes"], r["link_gbit_s"], r["ratio"], r["codec_gb_s"])
            found[key] = max(found.get(key, 0.0), plain[key[:2]] / r["time_us"])
    return found


def table(rows: list[Row]) -> str:
    """The gain by message size and link for every ratio with a middling codec."""
    lines = []
    given = sorted({k[2:] for k in gains(rows, "message")})
    rate = sorted({rate for _, rate in given})[len({rate for _, rate in given}) // 2]
    for ratio in sorted({ratio for ratio, _ in given}):
        for what in ("message", "step"):
            found = {k: g for k, g in gains(rows, what).items() if k[2:] == (ratio, rate)}
            for size in sorted({k[0] for k in found}):
                name = f"{size / 1e6:g} MB" if what == "message" else "a step"
                tasks = [f"{g:.2f}" for k, g in sorted(found.items()) if k[0] == size]
                lines.append((ratio, rate, name, *tasks))
    links = sorted({r["link_gbit_s"] for r in rows})
    return markdown(
        ("ratio", "codec GB/s", "message", *(f"{link:g} Gb/s" for link in links)), lines
    )


def verdict(rows: list[Row]) -> list[str]:
    """What became of the predictions, and the figures behind it."""
    single, whole = gains(rows, "message"), gains(rows, "step")
    turn = gains(rows, "message", side="in turn")
    lines = [
        *_predictions(single, turn, whole),
        _crossovers(single),
        _most("One message", single),
        _most("One message with sums of codes", gains(rows, "message", ("summable",))),
        _pieces(single, turn),
        _most("A step", whole),
    ]
    for link in sorted({k[1] for k in whole}):
        some = [g for k, g in whole.items() if k[1] == link]
        lines.append(
            f"A step on links of {link:g} Gb/s: {span(some)} times; over 1 % is gained with "
            f"{sum(g > 1.01 for g in some)} of {len(some)} codecs."
        )
    return lines


def _predictions(single: Gains, turn: Gains, whole: Gains) -> list[str]:
    least, pays = (
        min(k[0] for k in single),
        [size / 1e6 for size in _least_that_pays(single).values()],
    )
    small = [g for k, g in single.items() if k[0] == least]
    over = max(g / k[2] for k, g in single.items())
    slow = [g for k, g in single.items() if k[3] <= 4 * k[1] / 8]
    claimed = [k for k, g in single.items() if g >= 9.65]
    pieces = [single[k] / turn[k] for k in single]
    fast = [g for k, g in whole.items() if k[1] == max(j[1] for j in whole)]
    return [
        prediction(
            1,
            max(small) < 1 and min(pays) >= 0.1 and max(pays) <= 10,
            f"{least / 1e6:g} MB gains {span(small)}; the least size that pays is, by link, "
            f"{span(pays, 'g')} MB",
        ),
        prediction(
            2,
            over < 1.005 and all(g < 1 for g in slow),
            f"the gain is at most {over:.2f} times the ratio; with a codec of up to four times the link's "
            f"rate it is {span(slow)}",
        ),
        prediction(
            3,
            not claimed,
            f"9.65 times is reached against the best plain algorithm in {len(claimed)} of {len(single)} "
            f"cases {' and '.join(f'({_at(k)})' for k in sorted(claimed))}".strip(),
        ),
        prediction(4, max(pieces) < 3, f"pieces gain {span(pieces)} over coding in turn"),
        prediction(5, max(fast) <= 1, f"a step on the fastest links gains {span(fast)}"),
    ]


def _pieces(pieces: Gains, turn: Gains) -> str:
    found = {k: pieces[k] / turn[k] for k in pieces}
    top = max(found, key=lambda k: found[k])
    helped = sum(g > 1.1 for g in found.values())
    return (
        f"Cutting into pieces gains up to {found[top]:.2f} times over coding in turn ({_at(top)}), and over "
        f"10 % in {helped} of {len(found)} cases."
    )


def _least_that_pays(single: Gains) -> dict[float, int]:
    """For each link the least size at which some codec gains."""
    found: dict[float, int] = {}
    for (size, link, _, _), gain in sorted(single.items()):
        if gain > 1:
            found.setdefault(link, size)
    return dict(sorted(found.items()))


def _crossovers(single: Gains) -> str:
    told = [
        f"{link:g} Gb/s from {size / 1e6:g} MB" for link, size in _least_that_pays(single).items()
    ]
    return f"With the best codec of those tried, compression pays on links of {'; '.join(told)}."


def _most(what: str, found: Gains) -> str:
    top, low = max(found, key=lambda k: found[k]), min(found, key=lambda k: found[k])
    wins = sum(g > 1 for g in found.values())
    return (
        f"{what}: {found[low]:.2f} ({_at(low)}) to {found[top]:.2f} times ({_at(top)}) as fast; faster in "
        f"{wins} of {len(found)} cases."
    )


def _at(key: tuple[int, float, float, float]) -> str:
    size = f"{key[0] / 1e6:g} MB, " if key[0] else ""
    return f"{size}{key[1]:g} Gb/s, ratio {key[2]:g}, codec {key[3]:g} GB/s"


def draw(rows: list[Row]) -> str:
    """The gain over the message's size, by link, with the best codec."""
    found = gains(rows, "message")
    best = max(k[2:] for k in found)
    lines = []
    for link in sorted({k[1] for k in found}):
        points = sorted((k[0] / 1e6, g) for k, g in found.items() if k[1] == link and k[2:] == best)
        lines.append(Line(f"{link:g} Gb/s", points))
    title = f"Plain over compressed time, ratio {best[0]:g}, codec {best[1]:g} GB/s"
    return line_chart(title, lines, "MB per message", "×", log_x=True, level=1.0)


STUDY = Study("compression", measure, table, verdict, draw)

if __name__ == "__main__":
    STUDY.main()
