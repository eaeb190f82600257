"""Global settings of the program that was recorded."""

from __future__ import annotations

import chakrakit as ck
from chakrakit.replayer.recording import read_settings


def test_what_the_collector_wrote_down_counts():
    told = {"allow_tf32": False, "threads": 4, "autocast": "bf16"}
    card = ck.Card(settings={"collector": {"settings": told}})
    assert read_settings(card, ["tf32_gemm"]) == {"allow_tf32": False, "threads": 4}


def test_else_kernels_names_give_away_how_products_were_made():
    assert read_settings(ck.Card(), ["ampere_tf32_s1688gemm_fp32"]) == {"allow_tf32": True}
    assert read_settings(ck.Card(), ["sgemm_128x64"]) == {}
    assert read_settings(ck.Card(), ["convert_tf32_elementwise"]) == {}  # no product
    assert read_settings(ck.Card(settings={"collector": "x"}), []) == {}
