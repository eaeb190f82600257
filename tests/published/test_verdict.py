"""Verdicts follow from measurements, and can fail."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.published import result_of, swapped
from chakrakit.published.study import Claim
from chakrakit.published.verdict import decided, holm, interval, two_sided_p
from support.toy_study import measure, measured, toy


def verdict_of(monkeypatch, **changes):
    return result_of(measured(toy(**changes), monkeypatch))


def test_a_claim_inside_what_was_swept_holds(monkeypatch):
    result = verdict_of(monkeypatch)
    assert result.verdict == "holds"
    assert result.comparator == "tuned"
    assert [round(c.gain, 1) for c in result.cases] == [1.0, 2.0, 4.0]
    assert result.cases[2].chosen["trick"] == {"workers": 10, "trick": True}
    assert result.cases[2].low < result.cases[2].gain < result.cases[2].high
    assert result.cases[2].over["naive"] == pytest.approx(4 * 101 / 20, rel=0.01)


def test_a_figure_that_only_the_untuned_comparator_shows_holds_in_part(monkeypatch):
    result = verdict_of(monkeypatch, claims=[Claim("15 times as fast", 15, 15)])
    assert result.verdict == "holds in part"
    assert any("reached only over naive" in reason for reason in result.why)


def test_a_gain_that_does_not_vanish_holds_in_part(monkeypatch):
    result = verdict_of(monkeypatch, gone=lambda case: case["saves"] == 2.0)
    assert result.verdict == "holds in part"
    assert any("not within 2 % of 1" in reason for reason in result.why)


def test_nothing_gained_does_not_hold(monkeypatch):
    result = verdict_of(monkeypatch, cases=lambda quick: [{"saves": s} for s in (1.0, 0.5, 0.9)])
    assert result.verdict == "does not hold"


def test_an_effect_that_is_not_modelled_leaves_it_undecided(monkeypatch):
    result = verdict_of(monkeypatch, rests_on={"message cost": ""})
    assert (result.verdict, result.why) == ("not decidable", ["nothing here models message cost"])


@pytest.mark.parametrize(
    ("strength", "claimed", "verdict"),
    [
        ("bound", [3], "within the bound"),  # up to 4 are possible
        ("bound", [3, 9], "partly within the bound"),
        ("bound", [9], "beyond the bound"),
        ("side cost", [3], "side cost as claimed"),
        ("side cost", [9], "side cost in part as claimed"),
    ],
)
def test_a_bound_or_a_side_cost_has_words_of_its_own(strength, claimed, verdict, monkeypatch):
    claims = [Claim(f"{n} times", n, n) for n in claimed]
    assert verdict_of(monkeypatch, strength=strength, claims=claims).verdict == verdict


def test_a_figure_of_our_own_is_judged_and_never_enough(monkeypatch):
    ours = Claim("3 times", 3, 3, "ours")
    alone = verdict_of(monkeypatch, claims=[ours])
    assert (alone.verdict, alone.claims[0].reached) == ("holds in part", True)
    assert any("no figure was published" in reason for reason in alone.why)
    published = Claim("faster", 1.02, 1.02)
    assert verdict_of(monkeypatch, claims=[ours, published]).verdict == "holds"


def test_a_comparator_with_less_to_choose_from_is_refused():
    sides = dict(toy().sides)
    with pytest.raises(
        ConfigError, match="'tuned' may choose among 1 settings and the idea among 3"
    ):
        toy(sides=sides | {"tuned": sides["tuned"][:1]})


def test_a_study_that_raises_is_shown_as_such(monkeypatch):
    def failing(case, setting, seed):
        if case["saves"] == 4.0 and setting["trick"]:
            raise ValueError("no such thing")
        return measure(case, setting, seed)

    result = verdict_of(monkeypatch, measure=failing)
    assert result.verdict == "not decidable"
    assert "ValueError: no such thing" in result.errors[0]
    assert '"saves":4.0' in result.errors[0]


def test_a_comparator_that_collapsed_is_flagged_and_proves_nothing(monkeypatch):
    def collapsing(case, setting, seed):
        found = dict(measure(case, setting, seed))
        if case["saves"] == 4.0 and not setting["trick"]:
            found["rate"] /= 3
        return found

    result = verdict_of(monkeypatch, measure=collapsing)
    assert result.cases[2].collapsed == ["tuned", "naive"]
    assert result.verdict == "holds in part"
    assert "tuned collapsed in 1 of 3 cases" in result.why


def test_a_saturated_comparator_has_collapsed(monkeypatch):
    result = verdict_of(monkeypatch, measure=lambda *given: {**measure(*given), "busy": 1.0})
    assert all(c.collapsed == ["tuned", "naive"] for c in result.cases)


def test_taking_the_key_line_away_lowers_the_verdict(monkeypatch):
    (ablation,) = verdict_of(monkeypatch).ablations
    assert (ablation.without, ablation.verdict, ablation.changed) == (
        "the trick",
        "does not hold",
        True,
    )


def test_with_labels_swapped_nothing_holds(monkeypatch):
    judged = measured(toy(), monkeypatch)
    assert decided(judged)[0] == "holds"
    assert decided(swapped(judged, "tuned"))[0] == "does not hold"


def test_predictions_are_decided_together_or_untested(monkeypatch):
    outcomes = [p.outcome for p in verdict_of(monkeypatch).predictions]
    assert outcomes == ["came true", "did not", "untested"]


def test_a_prediction_within_chance_is_undecided(monkeypatch):
    chance = {"up": lambda t: np.array([1.0, -1.0, 0.5, -0.4, 0.1])}
    assert verdict_of(monkeypatch, predictions=chance).predictions[0].outcome == "undecided"


def test_figures_of_the_idea_itself_can_be_claimed(monkeypatch):
    near = Claim("a rate of 0.05", 0.04, 0.06, figure="rate")
    far = Claim("a rate of 0.5", 0.4, 0.6, figure="rate")
    assert verdict_of(monkeypatch, claims=[near]).verdict == "holds"
    assert verdict_of(monkeypatch, claims=[near, far]).verdict == "holds in part"


def test_claims_that_cannot_be_simulated_are_listed_and_not_judged(monkeypatch):
    accuracy = Claim("accuracy up by 5 %", 5, 5, "not simulable")
    assert verdict_of(monkeypatch, claims=[accuracy]).verdict == "holds in part"
    both = verdict_of(monkeypatch, claims=[accuracy, Claim("3 times", 3, 3)])
    assert [c.reached for c in both.claims] == [None, True]
    assert both.verdict == "holds"


@pytest.mark.parametrize(
    ("t", "p"),
    # Two-sided quantiles of Student's distribution with 4 degrees of freedom, from any table.
    [(2.776, 0.05), (4.604, 0.01), (0.741, 0.5)],
)
def test_p_values_are_those_of_students_table(t, p):
    values = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    values = values / values.std(ddof=1) * 5**0.5 + t
    assert two_sided_p(values) == pytest.approx(p, rel=2e-3)


def test_holm_multiplies_the_least_by_their_number():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution_for_many():
    values = np.random.default_rng(0).standard_normal(400)
    low, high = interval(values)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
