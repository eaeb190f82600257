"""Running a study, and looking at its recorded results."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.parallel import Progress, Workers, quiet
from chakrakit.published.judged import Judged, Row
from chakrakit.published.measuring import RESERVED, measure_study
from chakrakit.published.named import named_study, study_modules
from chakrakit.published.recorded import (
    TABLES,
    ClaimLine,
    StudyLine,
    read_rows,
    write_line,
    write_rows,
)
from chakrakit.published.study import GAIN
from chakrakit.published.verdict import ClaimResult, StudyResult, result_of

TABLE = "table.parquet"


def run_study(
    name: str,
    *,
    quick: bool = False,
    folder: Path | None = None,
    workers: Workers | None = None,
    progress: Progress = quiet,
) -> StudyResult:
    """Measures a study and judges it; a folder keeps its points and gets its table."""
    study = named_study(name)
    judged = measure_study(study, quick=quick, folder=folder, workers=workers, progress=progress)
    commit = commit_here()
    if folder is not None:
        write_rows(plain(judged.rows), commit, folder / TABLE)
    return result_of(judged, quick=quick, commit=commit)


def record(name: str, folder: Path = TABLES, workers: Workers | None = None) -> StudyResult:
    """Runs a study, quick and in full, and keeps its table among the recorded ones."""
    study = named_study(name)
    began = time.process_time()
    quick = measure_study(study, quick=True).rows
    quick_s = time.process_time() - began
    rows = [*measure_study(study, workers=workers).rows, *as_quick(quick)]
    write_rows(plain(rows), commit_here(), folder / f"{study.id}.parquet", quick_s)
    return recorded_study(name, folder)


def as_quick(rows: Sequence[Row]) -> list[Row]:
    """What a quick run judged, as rows of a table."""
    return [msgspec.structs.replace(row, phase="quick") for row in rows if row.phase == "judged"]


def recorded_rows(name: str, folder: Path = TABLES) -> tuple[Judged, str]:
    """What was recorded of a study, and the commit it was recorded with."""
    study = named_study(name)
    rows, commit = read_rows(folder / f"{study.id}.parquet")
    return Judged(study, [_row(row) for row in rows if row["phase"] != "quick"]), commit


def quick_rows(name: str, folder: Path = TABLES) -> list[Row]:
    """What a quick run of the study gave when it was recorded."""
    rows, _ = read_rows(folder / f"{named_study(name).id}.parquet")
    return [_row(row) for row in rows if row["phase"] == "quick"]


def recorded_study(name: str, folder: Path = TABLES) -> StudyResult:
    """The verdict on what was recorded."""
    judged, commit = recorded_rows(name, folder)
    return result_of(judged, commit=commit)


def renew_lines(folder: Path = TABLES) -> list[StudyResult]:
    """Writes the lines of all studies that have a recorded table; their results."""
    names = [name for name in study_modules() if (folder / f"{name}.parquet").exists()]
    results = [recorded_study(name, folder) for name in names]
    for result in results:
        write_line(line_of(result), folder)
    return results


def line_of(result: StudyResult) -> StudyLine:
    """A study in one line."""
    figures = {GAIN: result.gains, "gain where it should be gone": result.gone_gains}
    for claim in result.claims:
        if claim.least is not None and claim.most is not None:
            figures.setdefault(claim.figure, (claim.least, claim.most))
    return StudyLine(
        id=result.id,
        system=result.system,
        family=result.family,
        claim="; ".join(_claim_text(claim) for claim in result.claims),
        verdict=result.verdict,
        comparator=result.comparator,
        figures={name: [_rounded(v) for v in span] for name, span in figures.items()},
        commit=result.commit,
        strength=result.strength,
        why=result.why,
        claims=[_claim_line(claim) for claim in result.claims],
    )


def _claim_line(claim: ClaimResult) -> ClaimLine:
    measured = [v for v in (claim.least, claim.most) if v is not None]
    return ClaimLine(
        claim.text,
        claim.kind,
        claim.figure,
        [_rounded(claim.low), _rounded(claim.high)],
        [_rounded(v) for v in measured],
        claim.reached,
    )


def _claim_text(claim: ClaimResult) -> str:
    return f"{claim.text} (our figure)" if claim.kind == "ours" else claim.text


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows for a Parquet file: one column per figure; cases and settings as JSON."""
    return [
        {
            "phase": row.phase,
            "case": msgspec.json.encode(row.case).decode(),
            "side": row.side,
            "setting": msgspec.json.encode(row.setting).decode(),
            "seed": row.seed,
            "error": row.error,
            **row.figures,
        }
        for row in rows
    ]


def _row(row: dict[str, Any]) -> Row:
    figures = {k: v for k, v in row.items() if k not in RESERVED and v is not None}
    case, setting = (msgspec.json.decode(row[k], type=dict[str, Any]) for k in ("case", "setting"))
    return Row(row["phase"], case, row["side"], setting, row["seed"], figures, row["error"])


def commit_here() -> str:
    """The commit of the checkout that this package runs from; "" for one that was installed.

    Code that differs from the commit is marked; recorded tables are not code.
    """
    commit = _git("rev-parse", "--short=8", "HEAD")
    changed = _git("status", "--porcelain", "--", "..", ":(exclude)tables")
    return f"{commit}-dirty" if commit and changed else commit


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
