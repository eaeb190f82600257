"""Runs and facts as pages, charts, timelines and a web app; what they show is computed in `insight`.

Names are imported when first used, so that a timeline does not load reports of sweeps and studies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.views.campaign_page import campaign_html
    from chakrakit.views.report import html_report, markdown_comparison, markdown_report
    from chakrakit.views.spans import write_spans
    from chakrakit.views.study_pages import (
        bounds_page,
        first_page,
        study_chart,
        study_html,
        study_page,
        write_studies,
        write_study,
    )
    from chakrakit.views.sweep_report import sweep_html, write_sweep_report
    from chakrakit.views.timeline import TimelineOptions, timeline_format, write_timeline

_HOME = {
    "TimelineOptions": "timeline",
    "bounds_page": "study_pages",
    "campaign_html": "campaign_page",
    "first_page": "study_pages",
    "html_report": "report",
    "markdown_comparison": "report",
    "markdown_report": "report",
    "study_chart": "study_pages",
    "study_html": "study_pages",
    "study_page": "study_pages",
    "sweep_html": "sweep_report",
    "timeline_format": "timeline",
    "write_spans": "spans",
    "write_studies": "study_pages",
    "write_study": "study_pages",
    "write_sweep_report": "sweep_report",
    "write_timeline": "timeline",
}

__all__ = [
    "TimelineOptions",
    "bounds_page",
    "campaign_html",
    "first_page",
    "html_report",
    "markdown_comparison",
    "markdown_report",
    "study_chart",
    "study_html",
    "study_page",
    "sweep_html",
    "timeline_format",
    "write_spans",
    "write_studies",
    "write_study",
    "write_sweep_report",
    "write_timeline",
]

__getattr__ = late_names(__name__, _HOME)
