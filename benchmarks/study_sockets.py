"""Runs Raft, PBFT and Chord over sockets of this machine, for the study that compares simulations with them.

python benchmarks/study_sockets.py     writes src/chakrakit/published/protocols/socket_runs.json (2 minutes)
"""

from __future__ import annotations

import json
from pathlib import Path

from chakrakit.published import JUDGED_SEEDS, TUNING_SEEDS
from chakrakit.published.protocols.classic import FAULTS, PROTOCOLS, cast, outcome
from chakrakit.simulator.live import Sockets

PLACE = Path(__file__).parents[1] / "src/chakrakit/published/protocols/socket_runs.json"


def main() -> None:
    runs = {}
    for protocol in PROTOCOLS:
        for fault in FAULTS:
            for seed in (*JUDGED_SEEDS, *TUNING_SEEDS):
                world = Sockets(seed)
                cast(world, protocol, fault)
                result = world.run(10.0)
                assert not result.unfinished, result.unfinished
                found = outcome(result.returned, result.messages)
                runs[f"{protocol} {fault} {seed}"] = found
                print(protocol, fault, seed, found, flush=True)
    PLACE.write_text(json.dumps(runs, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
