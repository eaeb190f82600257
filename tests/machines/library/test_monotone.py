"""What must hold of every collective of every preset with a library, whatever its constants."""

from itertools import pairwise

import pytest

from chakrakit import collective, load_machine

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
SIZES = [1 << k for k in range(10, 34)]
MIB = 1 << 20
ROUNDED = 1 - 1e-12
PRESETS = ("dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "dgx-b300", "dgx-h800")


def rows_of(kind, preset, members, nodes=1):
    return collective(kind, load_machine(f"{preset}:{nodes}"), members, SIZES).rows


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize("preset", [*PRESETS, "gb200-nvl72", "l40s-pcie", "rtx-pro-6000"])
def test_more_bytes_by_the_same_algorithm_and_protocol_never_take_less_time(kind, preset):
    """Where the library changes its protocol they may: it chooses by estimates that err."""
    many = preset in PRESETS
    cases = [(members, 1) for members in range(2, 9)]
    for members, nodes in [*cases, *([(16, 2), (24, 3), (64, 8)] if many else [])]:
        rows = rows_of(kind, preset, members, nodes)
        for less, more in pairwise(rows):
            if (less.algorithm, less.protocol) == (more.algorithm, more.protocol):
                assert more.time_us >= less.time_us * ROUNDED, (members, less.bytes)


@pytest.mark.parametrize("preset", PRESETS)
def test_no_collective_moves_more_than_the_links_of_a_device_carry(preset):
    link = load_machine(preset).dimensions[0].fabric.links.bandwidth.min()
    for kind in ("all-gather", "reduce-scatter", "all-to-all"):
        for members in range(2, 9):
            for row in rows_of(kind, preset, members):
                assert row.busbw_gbs <= 1e-9 * link


@pytest.mark.parametrize("preset", PRESETS)
def test_a_broadcast_over_a_chain_takes_no_less_time_with_a_member_more(preset):
    for members in range(2, 8):
        pairs = zip(*(rows_of("broadcast", preset, n) for n in (members, members + 1)), strict=True)
        for fewer, more in pairs:
            if fewer.protocol == more.protocol:
                assert more.time_us >= fewer.time_us * ROUNDED


@pytest.mark.parametrize("preset", PRESETS)
def test_a_large_broadcast_moves_at_the_rate_of_a_large_gather(preset):
    """Both send every byte along the same rings once; none of them was measured to be slower."""
    gather, broadcast = (rows_of(kind, preset, 8)[-1] for kind in ("all-gather", "broadcast"))
    assert broadcast.busbw_gbs == pytest.approx(gather.busbw_gbs, rel=0.15)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter"])
@pytest.mark.parametrize(
    ("preset", "members", "nodes"),
    [
        ("gb200-nvl72", 32, 1),
        ("gb200-nvl72", 72, 1),
        ("gb300-nvl72", 144, 2),
        ("dgx-b200", 144, 18),
        ("l40s-pcie", 32, 4),
    ],
)
def test_rings_beyond_the_fitted_groups_never_take_less_time_with_more_bytes(
    kind, preset, members, nodes
):
    """Eight members hide in the start of a protocol what its hops take, which 144 members have many of."""
    rows = rows_of(kind, preset, members, nodes)
    assert {"LL", "LL128" if "b" in preset else "Simple"} <= {row.protocol for row in rows}
    assert all(more.time_us >= less.time_us * ROUNDED for less, more in pairwise(rows))


def test_a_group_larger_than_the_fitted_ones_is_called_a_prediction():
    note = "a prediction: the library was fitted on measurements of up to 8 members, not of 72"
    assert note in collective("all-gather", "gb200-nvl72", 72, [MIB]).notes
    assert not collective("all-gather", "gb200-nvl72", 8, [MIB]).notes
