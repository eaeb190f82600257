"""A22, amortized asynchronous Byzantine reliable broadcast: the message goes out once, votes carry digests.

Nodes of a wide-area network run the protocols as programs and wait for quorums (`broadcast.py`); f of n =
3f + 1 may be silent, and a sender may leave nodes out, which then ask those that voted. Bracha's protocol
echoes the whole message, the erasure-coded one a fragment of it. Bytes are those of all messages, of faulty
nodes too.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.protocols.broadcast import broadcast

SHOTS = 4


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Bytes and seconds of one instance, over several one after another."""
    found = broadcast(case["nodes"], case["bytes"], SHOTS, setting["way"], case["fault"], seed)
    return {**found, "share_of_bytes": case["nodes"] * case["bytes"] / found["bytes"]}


def cases(quick: bool) -> Sequence[Case]:
    """Messages from a digest's size up, with nobody faulty, f silent, and a sender that leaves nodes out."""
    nodes = (4, 10) if quick else (4, 10, 31)
    sizes = (32, 1_000_000) if quick else (32, 4_096, 1_000_000)
    faults = ("none", "silent", "withhold")
    return [{"nodes": n, "bytes": m, "fault": x} for n in nodes for m in sizes for x in faults]


def _large(nodes: int) -> dict[str, object]:
    return {"nodes": nodes, "bytes": 1_000_000, "fault": "none"}


STUDY = Study(
    id="A22",
    system="Amortized Byzantine reliable broadcast",
    family="protocols",
    strength="strong",
    claims=[
        Claim("n·|m| bytes for large messages", 1.0, 1.05, figure="over_nm", where=_large(31)),
        Claim(
            "n times fewer bytes than Bracha's", 30, 32, figure="gain over Bracha", where=_large(31)
        ),
    ],
    rests_on={
        "nodes that wait for k of n messages": "simulator/live/verbs.py",
        "silent and withholding nodes": "simulator/live/faults.py",
        "flows of a wide-area network": "simulator/live/planning.py",
    },
    cases=cases,
    sides={
        "amortized": [{"way": "digests"}],
        "Bracha": [{"way": "Bracha"}],
        "erasure-coded": [{"way": "coded"}],
    },
    idea="amortized",
    measure=measure,
    better=("bytes", "min"),
    health="delivered",
    gone=lambda case: bool(case["bytes"] == 32 and case["fault"] == "none"),
    ablate={"digests in place of messages": {"way": "Bracha"}},
    predictions={
        "all correct nodes deliver, with f silent nodes too": lambda t: (
            least(t.figure("delivered")) - 0.999
        ),
        "1 times for messages of a digest's size": lambda t: (
            0.02 - most(abs(t.gains("Bracha", bytes=32, fault="none") - 1))
        ),
        "about n times fewer bytes than Bracha's for a megabyte": lambda t: (
            least(t.gains("Bracha", bytes=1_000_000, nodes=10, fault="none")) - 9
        ),
        "2 to 4 times fewer than erasure-coded for a megabyte": lambda t: (
            least(t.gains("erasure-coded", bytes=1_000_000, nodes=10, fault="none")) - 2
        ),
    },
    decides="the size of a message next to n digests: votes cost 2n² digests whatever the message.",
    amended="cases were cut for time.",
    cannot_say="What computing digests and codes takes, and the published protocol's own first rounds, which "
    "set up what later instances share.",
)
