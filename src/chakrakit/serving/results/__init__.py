"""Results: figures and tables of a run."""

from chakrakit.serving.results.figures import Served
from chakrakit.serving.results.run import expanded, window_of, write_run
from chakrakit.serving.results.summary import ServeResult, ServiceLevel

__all__ = ["ServeResult", "Served", "ServiceLevel", "expanded", "window_of", "write_run"]
