"""A44, HexiSeq: one long sequence over devices of several kinds, in shards that fit each of them.

Equal shards wait for the slowest device; shards in proportion to peak rates overload memory, or forget that
attention grows with the square. A search over shares within every device's memory is held against both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.tools import seconds_of, unsure
from chakrakit.workloads.blocks import AttentionWork, Terms, assigned, attention_traces

WORK = AttentionWork(token_flops=2 * 12 * 4096**2)
"""Other layers of a model of hidden size 4,096: 12 squares of it in weights."""
KINDS = {"H100": "dgx-h100", "A100": "dgx-a100", "L40S": "l40s-pcie", "B200": "dgx-b200"}
BLOCK = 2048


@cache
def preset(name: str) -> Machine:
    """A machine that comes with the package, read once."""
    return load_machine(name)


@cache
def site(kinds: tuple[str, ...], seed: int) -> Machine:
    """A node of eight for every kind named, on one network; devices are those of the presets."""
    base = preset(f"dgx-h100:{len(kinds)}")
    names = list(dict.fromkeys(kinds))
    devices = tuple(preset(KINDS[name]).devices[0] for name in names)
    kind_of = np.repeat([names.index(name) for name in kinds], 8)
    return unsure(replace(base, devices=devices, device_of=kind_of), seed)


def used(machine: Machine) -> list[int]:
    """Four devices of every node, which share its adapters."""
    return [node + place for node in range(0, machine.size, 8) for place in range(4)]


def rates(machine: Machine) -> F64:
    """Peak bf16 rates of the devices that are used."""
    return np.array([machine.device(d).peak_rate("bf16") for d in used(machine)])


def memories(machine: Machine) -> F64:
    """Bytes of the devices that are used."""
    return np.array([machine.device(d).memory for d in used(machine)])


def shares(machine: Machine, setting: Setting) -> tuple[F64, F64]:
    """Relative speeds for the work of attention, and shares of tokens, within memory."""
    fast = rates(machine)
    speeds, tokens = fast ** setting["work"], fast ** setting["tokens"]
    memory = memories(machine)
    tokens = tokens / tokens.sum()
    if setting["capped"]:
        tokens = np.minimum(tokens, 2 * memory / memory.sum())
    return speeds / speeds.mean(), tokens / tokens.sum()


@cache
def layer_seconds(
    kinds: tuple[str, ...], tokens: int, setting: tuple[tuple[str, float], ...], seed: int
) -> float:
    """One layer over the whole sequence; infinite where a device cannot hold its tokens."""
    machine, chosen = site(kinds, seed), dict(setting)
    speeds, token_shares = shares(machine, chosen)
    memory = memories(machine)
    if (token_shares > 4 * memory / memory.sum()).any():
        return float("inf")
    terms = Terms(speeds, token_shares, slack=1.05)
    a = assigned((tokens,), len(memory), "flops", BLOCK, terms)
    return seconds_of(attention_traces(a, WORK), machine, placement=tuple(used(machine)))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Tokens per second of a layer, and the share of all devices' peaks that it reaches."""
    kinds, tokens = tuple(str(case["kinds"]).split("+")), case["tokens"]
    took = layer_seconds(kinds, tokens, tuple(sorted(setting.items())), seed)
    flops = tokens**2 / 2 * WORK.pair_flops + tokens * WORK.token_flops
    return {"tokens_per_s": tokens / took, "share": flops / took / rates(site(kinds, seed)).sum()}


def cases(quick: bool) -> Sequence[Case]:
    """Equal nodes, and nodes of two to four kinds."""
    mixes = ["H100+H100", "H100+A100", "H100+L40S"]
    if not quick:
        mixes += ["H100+A100+L40S", "B200+H100+A100+L40S"]
    sizes = (131072,) if quick else (65536, 131072, 262144)
    return [{"kinds": mix, "tokens": n} for mix in mixes for n in sizes]


def ways(work: tuple[float, ...], tokens: tuple[float, ...], capped: int) -> list[Setting]:
    """All pairs of exponents of the devices' rates."""
    return [{"work": w, "tokens": t, "capped": capped} for w in work for t in tokens]


STUDY = Study(
    id="A44",
    system="HexiSeq",
    family="training",
    strength="strong",
    claims=[
        Claim("1.36 times on average in simulations, at most 1.72", 1.1, 1.72),
        Claim("1.11 times on average on H100 and A100", 1.02, 1.19, where={"kinds": "H100+A100"}),
    ],
    rests_on={
        "devices of several kinds": "machines/fabric/machine.py",
        "shards of unequal work and tokens": "workloads/blocks/assignment.py",
        "keys that are sent between unlike ranks": "workloads/blocks/exchange.py",
    },
    cases=cases,
    sides={
        "HexiSeq": ways((1.0,), (0.6, 1.0), 1),
        "in proportion to rates": ways((1.0,), (1.0, 1.1), 0),
        "equal shards": ways((0.0,), (0.0, 0.05), 0),
    },
    idea="HexiSeq",
    measure=measure,
    better=("tokens_per_s", "max"),
    health="share",
    gone=lambda case: bool(case["kinds"] == "H100+H100"),
    ablate={"unequal shards": {"work": 0.0, "tokens": 0.0}},
    predictions={
        "nothing is gained on equal devices": lambda t: (
            0.02 - most(abs(t.gains(kinds="H100+H100") - 1))
        ),
        "equal shards lose the more the devices differ": lambda t: (
            least(t.gains("equal shards", kinds="H100+L40S"))
            - most(t.gains("equal shards", kinds="H100+A100"))
        ),
        "against proportional shards little is left": lambda t: (
            1.3 - most(t.gains("in proportion to rates", kinds="H100+A100"))
        ),
    },
    shows={"gain over equal shards": lambda t: t.gains("equal shards")},
    decides="what it is held against: shares in proportion to rates already bring most of the gain.",
    amended="Fewer devices for a sequence after the first run, in which sending keys took longer than "
    "computing, and fewer settings; for the same reason 262,144 tokens, and a column over equal shards.",
    cannot_say="Heads that are split unevenly, and training of a whole model with its pipeline.",
)
