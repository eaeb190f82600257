"""Pages of studies say what their tables say."""

from __future__ import annotations

from chakrakit.published import recorded_study
from chakrakit.views import study_page


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
