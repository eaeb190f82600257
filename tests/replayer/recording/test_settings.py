"""Global settings of the program that was recorded."""

from __future__ import annotations

from chakrakit.replayer.recording import read_settings
from chakrakit.trace.sets import Card


def test_settings_are_those_the_collector_wrote_down():
    told = {"allow_tf32": True, "threads": 3, "something else": 1}
    card = Card(name="x", settings={"collector": {"settings": told}})
    assert read_settings(card, ["sgemm"]) == {"allow_tf32": True, "threads": 3}


def test_kernels_tell_of_tf32_where_nobody_wrote_it_down():
    card = Card(name="x")
    assert read_settings(card, ["sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n"]) == {"allow_tf32": True}
    assert read_settings(card, ["cutlass_80_tensorop_s1688gemm_128x128"]) == {"allow_tf32": True}
    assert read_settings(card, ["ampere_sgemm_128x64_tn"]) == {}
