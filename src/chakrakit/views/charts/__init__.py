"""Small SVG charts; they get figures and draw them."""

from __future__ import annotations

from chakrakit.views.charts import charts, plots
from chakrakit.views.charts.forest import Dot, forest_chart
from chakrakit.views.charts.lines import Line, line_chart
from chakrakit.views.charts.markup import Markup, join, tag

__all__ = ["Dot", "Line", "Markup", "charts", "forest_chart", "join", "line_chart", "plots", "tag"]
