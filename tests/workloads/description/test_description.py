"""Descriptions: defaults, figures that follow, and fields that are not there."""

from __future__ import annotations

import msgspec
import pytest

from chakrakit.workloads.description import Decoder, Diffusion, Plan, Vision, Workload

SMALL = Decoder(name="meta/llama-3.1", layers=2, hidden=64, heads=8, vocab=96)


def test_a_plan_has_a_rank_for_every_place_on_its_axes() -> None:
    assert Plan(dp=2, tp=3, pp=4, cp=5, ep=2).world == 120
    assert Plan().replace(dp=8).world == 8


def test_samples_of_images_and_videos_are_patches() -> None:
    vision = Vision(layers=1, hidden=64, heads=4, ffn=96, image=32, patch=8)
    assert vision.tokens == 16 + 1  # and the class token
    video = Diffusion(
        layers=1, hidden=64, heads=4, ffn=96, patch=(1, 2, 2), frames=4, height=8, width=6
    )
    assert video.tokens == 4 * 4 * 3


def test_a_name_becomes_one_for_files() -> None:
    assert Workload(model=SMALL).name == "meta-llama-3-1"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"model": {"family": "decoder", "layers": 1}}, "missing required field `hidden`"),
        ({"model": {"family": "oracle"}}, "Invalid value 'oracle'"),
        ({"model": msgspec.to_builtins(SMALL), "plan": {"tensor": 2}}, "unknown field `tensor`"),
        (
            {"model": msgspec.to_builtins(SMALL), "plan": {"data": "some"}},
            "Invalid enum value 'some'",
        ),
    ],
)
def test_what_no_description_has_is_refused(data: dict, said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(data, Workload)


def test_a_schedule_of_ones_own_is_called_cells_in_files() -> None:
    plan = msgspec.convert({"pp": 2, "cells": [["F0", "B0"], ["F0", "B0"]]}, Plan)
    assert plan.tasks == [["F0", "B0"]] * 2
    assert "cells" in msgspec.to_builtins(plan)
