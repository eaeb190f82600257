"""What must hold of every collective of every preset with a library, whatever its constants."""

from itertools import pairwise

import pytest

from chakrakit import collective, load_machine

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
SIZES = [1 << k for k in range(10, 34)]
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
