"""Models of several sections: who works on which sample, what is handed on, and the traces of all ranks."""

from __future__ import annotations

from chakrakit.workloads.sections.feasible import check_sections
from chakrakit.workloads.sections.figures import section_figures
from chakrakit.workloads.sections.files import description_of, section_graph_of
from chakrakit.workloads.sections.programs import SectionPrograms
from chakrakit.workloads.sections.series import SectionSeries

__all__ = [
    "SectionPrograms",
    "SectionSeries",
    "check_sections",
    "description_of",
    "section_figures",
    "section_graph_of",
]
