"""`chakra calibrate`: a profile from microbenchmarks, used by a simulation."""

from __future__ import annotations

import json
from pathlib import Path

from support.commands import chakra, data, succeeded


def test_a_profile_is_made_and_used(place: Path) -> None:
    micro, profile = place / "m.json", place / "p.json"
    rows = [
        {"op": "add", "shape": [n], "us": 2 + n / 1e5, "bytes": n} for n in (10**3, 10**4, 10**6)
    ]
    micro.write_text(json.dumps({"gpu": "X", "rows": rows}))
    assert "elementwise" in succeeded("calibrate", micro, "-o", profile)
    found = data("simulate", place / "t", "--machine", "dgx-h100", "--compute", profile)
    assert found["compute"] == "profile p"


def test_constants_are_of_a_machine(place: Path) -> None:
    (place / "t.csv").write_text("collective,members,bytes,time_us\nall-reduce,8,1024,10\n")
    done = chakra("calibrate", place / "t.csv", "--collectives", "-o", place / "l.json")
    assert done.exit_code == 2
    assert "say which one the collectives ran on" in done.stderr
