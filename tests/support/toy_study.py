"""A study whose outcome is known beforehand: work that takes 100 / workers, and less by a trick."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.published import Case, Claim, Figures, Judged, Setting, Study, most


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The trick saves what the case allows; a seed moves both sides alike, and a little apart."""
    rng = np.random.default_rng([seed, setting["workers"], setting["trick"]])
    saved = case["saves"] if setting["trick"] else 1.0
    base = 100 / setting["workers"] + setting["workers"]
    seconds = base / saved * (1 + 0.01 * np.random.default_rng(seed).standard_normal())
    return {"seconds": seconds * (1 + 0.001 * rng.standard_normal()), "rate": 1 / base}


def toy(**changes: Any) -> Study:
    """The study, with some of it changed."""
    fields: dict[str, Any] = {
        "id": "T01",
        "system": "Toy",
        "family": "toys",
        "strength": "strong",
        "claims": [Claim("3 times as fast", 3.0, 3.0)],
        "rests_on": {"time": "simulator/engine/native.py"},
        "cases": lambda quick: [{"saves": s} for s in (1.0, 2.0, 4.0)],
        "sides": {
            "trick": [{"workers": w, "trick": True} for w in (1, 10, 100)],
            "tuned": [{"workers": w, "trick": False} for w in (1, 10, 100)],
            "naive": [{"workers": 1, "trick": False}],
        },
        "idea": "trick",
        "untuned": ["naive"],
        "measure": measure,
        "better": ("seconds", "min"),
        "health": "rate",
        "gone": lambda case: case["saves"] == 1.0,
        "ablate": {"the trick": {"trick": False}},
        "predictions": {
            "3.5 times where 4 are saved": lambda t: most(t.gains(saves=4.0)) - 3.5,
            "5 times where 4 are saved": lambda t: most(t.gains(saves=4.0)) - 5,
            "something where 8 are saved": lambda t: most(t.gains(saves=8.0)) - 1,
        },
        "cannot_say": "Anything.",
    }
    return Study(**(fields | changes))


def measured(study: Study, monkeypatch: Any, **how: Any) -> Judged:
    """The study's measurements, under whatever id."""
    from chakrakit.published import measuring

    monkeypatch.setattr(measuring, "named_study", lambda _: study)
    return measuring.measure_study(study, **how)
