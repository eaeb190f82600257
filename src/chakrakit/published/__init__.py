"""Published systems as studies: an idea against comparators that are tuned as carefully.

A study is one file in the folder of its family (`study.py` says what it holds). It is measured and judged in
one way (`measuring.py`, `verdict.py`), and its recorded table comes with the package (`recorded.py`). Names
are imported when first used, so that listing what was recorded loads nothing that could run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.published.judged import Judged, Row, certain, least, most
    from chakrakit.published.measuring import measure_study
    from chakrakit.published.named import named_study, study_modules
    from chakrakit.published.recorded import (
        TABLES,
        ClaimLine,
        StudyLine,
        list_studies,
        quick_seconds,
    )
    from chakrakit.published.run import (
        line_of,
        quick_rows,
        record,
        recorded_rows,
        recorded_study,
        renew_lines,
        run_study,
    )
    from chakrakit.published.study import (
        JUDGED_SEEDS,
        TUNING_SEEDS,
        Case,
        Claim,
        Figures,
        Setting,
        Study,
    )
    from chakrakit.published.tools import kernel, seconds_of, unsure
    from chakrakit.published.verdict import (
        VERDICTS,
        CaseResult,
        StudyResult,
        decided,
        grade_of,
        result_of,
        swapped,
        words,
    )

_HOME = {
    "JUDGED_SEEDS": "study",
    "TABLES": "recorded",
    "Case": "study",
    "CaseResult": "verdict",
    "Claim": "study",
    "ClaimLine": "recorded",
    "Figures": "study",
    "Judged": "judged",
    "Row": "judged",
    "Setting": "study",
    "Study": "study",
    "StudyLine": "recorded",
    "StudyResult": "verdict",
    "TUNING_SEEDS": "study",
    "VERDICTS": "verdict",
    "certain": "judged",
    "decided": "verdict",
    "grade_of": "verdict",
    "kernel": "tools",
    "least": "judged",
    "line_of": "run",
    "list_studies": "recorded",
    "measure_study": "measuring",
    "most": "judged",
    "named_study": "named",
    "quick_rows": "run",
    "quick_seconds": "recorded",
    "record": "run",
    "recorded_rows": "run",
    "recorded_study": "run",
    "renew_lines": "run",
    "result_of": "verdict",
    "run_study": "run",
    "seconds_of": "tools",
    "study_modules": "named",
    "swapped": "verdict",
    "unsure": "tools",
    "words": "verdict",
}
"""Name → the module that has it."""

__all__ = [
    "JUDGED_SEEDS",
    "TABLES",
    "TUNING_SEEDS",
    "VERDICTS",
    "Case",
    "CaseResult",
    "Claim",
    "ClaimLine",
    "Figures",
    "Judged",
    "Row",
    "Setting",
    "Study",
    "StudyLine",
    "StudyResult",
    "certain",
    "decided",
    "grade_of",
    "kernel",
    "least",
    "line_of",
    "list_studies",
    "measure_study",
    "most",
    "named_study",
    "quick_rows",
    "quick_seconds",
    "record",
    "recorded_rows",
    "recorded_study",
    "renew_lines",
    "result_of",
    "run_study",
    "seconds_of",
    "study_modules",
    "swapped",
    "unsure",
    "words",
]


__getattr__ = late_names(__name__, _HOME)
