"""What the study of placement says: its table, its verdict and its drawing, from the rows alone."""

from __future__ import annotations

import re
from itertools import pairwise

from study import Row, markdown, prediction, span

from chakrakit.views.lines import Line, line_chart

Key = tuple[str, str, float]
"""Kind, site and oversubscription."""
SLICES = ("mesh", "torus")
TREES = ("scattered", "leaf by leaf", "hashed")


def best_of(rows: list[Row]) -> dict[Key, dict[str, Row]]:
    """For each site and side the row with the least step; `random` has its mean."""
    found: dict[Key, dict[str, Row]] = {}
    for r in rows:
        by = found.setdefault((r["kind"], r["site"], r["oversubscription"]), {})
        by[r["side"]] = min(by.get(r["side"], r), r, key=lambda row: row["step_ms"])
    for key, by in found.items():
        some = [
            r["step_ms"]
            for r in rows
            if r["side"] == "random" and r["site"] == key[1] and r["oversubscription"] == key[2]
        ]
        by["random"] = {**by["random"], "step_ms": sum(some) / len(some)}
    return found


def gains(rows: list[Row]) -> dict[Key, dict[str, float]]:
    """For each site, how many times as long each side takes as `aware`."""
    return {
        key: {side: r["step_ms"] / by["aware"]["step_ms"] for side, r in by.items()}
        for key, by in best_of(rows).items()
    }


def by_plan(rows: list[Row], site: str) -> dict[str, dict[str, float]]:
    """On a slice, for each sharding, how many times as long each side takes as `aware` with the same."""
    steps: dict[str, dict[str, float]] = {}
    for r in rows:
        if r["site"] == site and r["side"] in ("default", "ordered", "aware"):
            steps.setdefault(r["plan"], {})[r["side"]] = r["step_ms"]
    known = {plan: by for plan, by in steps.items() if "aware" in by}
    return {plan: {side: v / by["aware"] for side, v in by.items()} for plan, by in known.items()}


def table(rows: list[Row]) -> str:
    """One line per site: how many times as long as `aware` each side takes."""
    factors, best = gains(rows), best_of(rows)
    lines = [
        (
            *key[1:],
            *(f"{g[s]:.3f}" for s in ("default", "ordered", "mapped", "random")),
            _told(best[key]["ordered"]),
            _told(best[key]["aware"]),
        )
        for key, g in factors.items()
    ]
    heads = ("default", "ordered", "mapped", "random", "ordered chose", "aware chose")
    return markdown(("site", "oversubscription", *heads), lines)


def _told(row: Row) -> str:
    sizes = dict(re.findall(r"([a-z]+)(\d+)", row["plan"]))
    axes = "-".join(a for a in row["order"].split("-") if int(sizes.get(a, 1)) > 1)
    return f"{row['plan']}; {axes}; {row['path']}"


def verdict(rows: list[Row]) -> list[str]:
    """What became of the predictions, and the figures behind it."""
    found = gains(rows)
    lines = _predictions(rows, found)
    lines += _slices(rows, [key for key in found if key[0] in SLICES])
    lines += [_tree(kind, found) for kind in TREES]
    beyond = [g["mapped"] for g in found.values()]
    lines.append(
        f"`mapped`, which simulates nothing on its way, takes {span(beyond)} times as long as `aware`."
    )
    return lines


def _tree(kind: str, found: dict[Key, dict[str, float]]) -> str:
    mine = {key: g["ordered"] for key, g in found.items() if key[0] == kind}
    told = [
        f"{over:g}: {span(g for key, g in mine.items() if key[2] == over)}"
        for over in sorted({key[2] for key in mine})
    ]
    return f"Fat tree, {kind}, ordered / aware by oversubscription: {'; '.join(told) or 'no case'}."


def _predictions(rows: list[Row], found: dict[Key, dict[str, float]]) -> list[str]:
    free = [g["ordered"] for key, g in found.items() if key[0] in SLICES]
    told = f"with the sharding free ordered / aware is {span(free)} on slices"
    return [
        _on_slices(rows, found),
        prediction(2, max(free) < 1.2, told),
        _on_trees(found),
        _random(found),
    ]


def _on_slices(rows: list[Row], found: dict[Key, dict[str, float]]) -> str:
    """1: placement alone helps on meshes, and helps longer ones more."""
    alone = {
        key[1]: max(by["default"] for by in by_plan(rows, key[1]).values())
        for key in found
        if key[0] in SLICES
    }
    meshes = [alone[key[1]] for key in found if key[0] == "mesh"]
    ranked = [alone[s] for s in ("mesh 2×16", "mesh 4×8", "mesh 4×4") if s in alone]
    return prediction(
        1,
        min(meshes) > 1.1 and all(a > b for a, b in pairwise(ranked)),
        "by placement alone, at the sharding where it helps most, default / aware is "
        + ", ".join(f"{site} {g:.2f}" for site, g in alone.items()),
    )


def _on_trees(found: dict[Key, dict[str, float]]) -> str:
    """3: on scattered nodes the gain grows with oversubscription; elsewhere there is none."""
    kinds: dict[str, list[float]] = {}
    for key, g in sorted(found.items(), key=lambda item: item[0][2]):
        if key[0] == "scattered":
            kinds.setdefault(key[1], []).append(g["ordered"])
    scattered = list(kinds.values())
    grows = all(a <= b for g in scattered for a, b in pairwise(g))
    none = [
        g["ordered"]
        for key, g in found.items()
        if key[0] in ("node", "leaf by leaf") or (key[0] == "scattered" and key[2] == 1)
    ]
    more = "grows" if grows else "does not always grow"
    return prediction(
        3,
        grows and all(g < 1.02 for g in none),
        f"with scattered nodes the gain {more} with oversubscription, "
        f"to {max((g[-1] for g in scattered), default=1):.2f}; leaf by leaf, without oversubscription and "
        f"within a node it is {span(none)}",
    )


def _random(found: dict[Key, dict[str, float]]) -> str:
    """4: random placement is the worst everywhere."""
    better = [g for g in found.values() if g["random"] < max(g["default"], g["mapped"]) - 1e-6]
    most = max(g["random"] for g in found.values())
    return prediction(
        4,
        not better,
        f"random takes up to {most:.2f} times as long as aware, and is not the worst in {len(better)} of "
        f"{len(found)} sites",
    )


def _slices(rows: list[Row], keys: list[Key]) -> list[str]:
    lines, best = [], best_of(rows)
    for key in keys:
        site, plans = key[1], by_plan(rows, key[1])
        spans = []
        for side in ("default", "ordered"):
            some = [by[side] for by in plans.values()]
            spans.append(f"{side} / aware {min(some):.2f} to {max(some):.2f}")
        free = {
            side: best[key][side]["step_ms"] / best[key]["aware"]["step_ms"]
            for side in ("default", "ordered")
        }
        lines.append(
            f"{site}: at equal sharding {' and '.join(spans)} over {len(plans)} shardings; with the sharding "
            f"free, default / aware {free['default']:.2f} and ordered / aware {free['ordered']:.2f}."
        )
    return lines


def draw(rows: list[Row]) -> str:
    """The gain on the fat tree over its oversubscription."""
    found = {s: g for s, g in gains(rows).items() if s[0] in TREES[:2]}
    lines = []
    for name in dict.fromkeys(s[1] for s in found):
        points = sorted((s[2], g["ordered"]) for s, g in found.items() if s[1] == name)
        lines.append(Line(name, points, dashed="scattered" not in name))
    return line_chart(
        "Best order of axes on the nodes as they come, against topology-aware placement",
        lines,
        "oversubscription",
        "× aware",
        level=1.0,
    )
