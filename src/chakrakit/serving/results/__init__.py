"""Results: figures and tables of a run."""

from chakrakit.serving.results.expand import expanded, window_of
from chakrakit.serving.results.figures import Served
from chakrakit.serving.results.run import write_run
from chakrakit.serving.results.service_level import ServiceLevel
from chakrakit.serving.results.summary import ServeResult

__all__ = ["ServeResult", "Served", "ServiceLevel", "expanded", "window_of", "write_run"]
