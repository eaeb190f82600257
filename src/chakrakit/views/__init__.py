"""Runs and facts as pages, charts, timelines and a web app; what they show is computed in `insight`."""

from __future__ import annotations

from chakrakit.views.report import html_report, markdown_comparison, markdown_report
from chakrakit.views.spans import write_spans
from chakrakit.views.study_pages import (
    bounds_page,
    first_page,
    study_chart,
    study_page,
    write_studies,
    write_study,
)
from chakrakit.views.sweep_report import write_sweep_report
from chakrakit.views.timeline import TimelineOptions, timeline_format, write_timeline

__all__ = [
    "TimelineOptions",
    "bounds_page",
    "first_page",
    "html_report",
    "markdown_comparison",
    "markdown_report",
    "study_chart",
    "study_page",
    "timeline_format",
    "write_spans",
    "write_studies",
    "write_study",
    "write_sweep_report",
    "write_timeline",
]
