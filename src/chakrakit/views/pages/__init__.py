"""Pages that are complete in themselves: the report and the page of a sweep."""

from __future__ import annotations

from chakrakit.views.pages.pictures import Picture, plot
from chakrakit.views.pages.report import SECTIONS, comparison_section, html_report, markdown_report
from chakrakit.views.pages.study_pages import (
    first_page,
    study_chart,
    study_page,
    write_studies,
    write_study,
)
from chakrakit.views.pages.sweep_report import write_sweep_report

__all__ = [
    "SECTIONS",
    "Picture",
    "comparison_section",
    "first_page",
    "html_report",
    "markdown_report",
    "plot",
    "study_chart",
    "study_page",
    "write_studies",
    "write_study",
    "write_sweep_report",
]
