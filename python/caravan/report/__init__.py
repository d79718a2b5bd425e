"""What a reader sees of a study: figures in one grammar (Vega-Lite) and one page of HTML."""

from caravan.report.page import write_report

__all__ = ["write_report"]
