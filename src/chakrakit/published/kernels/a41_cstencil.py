"""A41, CStencil: a stencil on a wafer against a GPU, by the bytes of an iteration and the edges of tiles.

The grid is cut into tiles of the wafer's places. An iteration moves every point twice through a place's own
memory, and the edges of a tile to four neighbours over links of the mesh.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from chakrakit.operators import Count, counted
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.kernels.bounds import DEVICES, least_seconds

PLACES, LINK = 900_000, 214e15 / 8 / 900_000 / 4
"""Places of a WSE-3, and bytes/s of one of the four links of each: 214 Pb/s of fabric, by its data sheet."""
HOP = 2e-9
"""Seconds from a place to the next: two cycles at about 1 GHz."""
ITERATIONS = 100


def five_points(x: Any, weights: Any) -> Any:
    """The weighted mean of a point and its neighbours, fused: the grid is read once and written once."""
    return np.einsum("ijkl,kl->ij", sliding_window_view(x, (3, 3)), weights)


@cache
def a_point() -> Count:
    """Operations and bytes of a point in one iteration."""
    side = 256
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.float32) / 5
    grid = np.random.default_rng(0).random((side + 2, side + 2), np.float32)
    return counted(five_points, grid, cross).scaled(1 / side**2)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The least seconds of the iterations, with the exchange of edges where tiles have neighbours."""
    points = float(case["grid"]) ** 2
    device = setting["device"]
    rate = 1.0 / setting["fused"]  # iterations that one pass over memory does
    count = a_point().scaled(points, points * rate)
    seconds = least_seconds(count, device, seed) * ITERATIONS
    if device == "WSE-3":
        edge = 4 * case["grid"] / PLACES**0.5
        seconds += ITERATIONS * (edge / LINK + HOP)
    busy = 8 * points * ITERATIONS / DEVICES[device][1] / seconds
    return {"seconds": seconds, "of_memory": min(1.0, busy)}


STUDY = Study(
    id="A41",
    system="CStencil on a wafer",
    family="kernels",
    strength="bound",
    claims=[Claim("up to 342 times as fast as on an A100", 342, 342)],
    rests_on={"bytes of a stencil, counted": "operators/counted.py"},
    cases=lambda quick: [
        {"grid": n} for n in ((512, 8192, 65536) if quick else (512, 1024, 8192, 32768, 65536))
    ],
    sides={
        "wafer": [{"device": "WSE-3", "fused": 1}],
        "A100": [{"device": "A100", "fused": f} for f in (1, 2, 4)],
    },
    idea="wafer",
    measure=measure,
    better=("seconds", "min"),
    health="of_memory",
    gone=lambda case: bool(case["grid"] <= 512),
    ablate={"a wafer": {"device": "A100"}},
    predictions={
        "the wafer's memory leaves room for 342 times": lambda t: most(t.gains()) - 342,
        "small grids gain less: edges and hops take longer than points": lambda t: (
            least(t.gains(grid=65536)) - most(t.gains(grid=512))
        ),
    },
    decides="operations on the wafer, where 18 a point take longer than its bytes, and bytes on the "
    "GPU, of which four fused iterations save three quarters: against one iteration at a time some 600 "
    "times would be left. On small grids hops take as long as points.",
    amended="the wafer's rate was corrected from 125e12 to 2e15 FLOP/s, and how windows are counted; "
    "the prediction about small grids is asked of 512 instead of 1,024.",
    cannot_say="What code on either machine reaches: both are ideal here.",
)
