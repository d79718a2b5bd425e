"""The presentation of a study: figures in one grammar (Vega-Lite) and one HTML page."""

from caravan.report.page import write_report

__all__ = ["write_report"]
