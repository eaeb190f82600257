"""The machine as a map."""

from __future__ import annotations

import re

from chakrakit.insight import LinksUse, LinkUse
from chakrakit.views.network_map import network_map, shade


def _link(src: str, dst: str, share: float, rank: int = -1) -> LinkUse:
    return LinkUse(
        link=f"{src}{dst}", src=src, dst=dst, rank=rank, bytes=1e6, bandwidth=1e9, utilization=share
    )


def test_devices_lie_below_their_switches_and_links_have_the_color_of_their_load():
    uses = [_link("device 10", "switch 0.0", 1.0, 10), _link("device 9", "switch 0.0", 0.5, 9)]
    uses += [_link("switch 0.0", "switch 1.0", 0.0)]
    drawn = str(network_map(LinksUse(links=uses, whole=False), "all along"))
    paths = re.findall(r'd="M([\d.]+),([\d.]+) L([\d.]+),([\d.]+)"[^>]*stroke="(#\w+)"', drawn)
    assert [p[4] for p in paths] == [shade(0.0), shade(0.5), shade(1.0)]  # the busiest on top
    up, nine, ten = ([float(x) for x in p[:4]] for p in paths)
    assert nine[0] < ten[0]  # in the order of numbers
    assert nine[1] > nine[3] > up[3]
    assert 'data-goto="rank=10"' in drawn
    assert "all along" in drawn


def test_names_of_a_machine_are_text_and_rings_are_arcs():
    uses = [_link("<b>gpu</b> 0", "gpu 1", 0.1), _link("gpu 1", "<b>gpu</b> 0", 0.1)]
    drawn = str(network_map(LinksUse(links=uses, whole=True), ""))
    assert "<b>gpu" not in drawn
    assert drawn.count(" Q") == 2
    assert "does not say when" in drawn
