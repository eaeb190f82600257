"""Pages of studies say what their tables say."""

from __future__ import annotations

import pytest

from chakrakit.published import ClaimLine, recorded_study
from chakrakit.views import study_page
from chakrakit.views.study_pages import _answer


def test_a_page_has_every_claim_case_and_ablation() -> None:
    result = recorded_study("A28")
    page = study_page(result)
    assert page.startswith(f"# {result.system} ({result.id})")
    assert f"**{result.verdict}**" in page
    for claim in result.claims:
        assert f"| {claim.text} | {claim.kind} |" in page
    for ablation in result.ablations:
        assert f"| {ablation.without} |" in page
    assert page.count("| VGG16 |") == sum(c.case["network"] == "VGG16" for c in result.cases)


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        (ClaimLine("x", "calibrated", "gain", [2.0, 3.0]), "– put in, not measured"),
        (
            ClaimLine("x", "derived", "gain", [2.0, 3.0], [2.0, 2.5], reached=True),
            "2 to 2.5 times as good ✓",
        ),
        (
            ClaimLine("x", "ours", "lost_share", [0.1, None], [0.2, 0.3], reached=False),
            "lost share 0.2 to 0.3 ✗ (our figure; none was published)",
        ),
        (ClaimLine("x", "derived", "gain", [1.0, 2.0], reached=False), "nothing ✗"),
    ],
)
def test_what_came_out_of_a_claim(claim: ClaimLine, answer: str) -> None:
    assert _answer(claim) == answer
