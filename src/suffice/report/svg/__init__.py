"""Charts as inline SVG, from numbers and texts of the caller: no script, no style attribute, nothing loaded from elsewhere.

``draw`` gives one picture. ``responsive`` gives two, for wide and for narrow screens, of which the page's style sheet shows one: a picture that
is shrunk to a phone cannot be read. A page takes :data:`CHART_STYLE` into its style sheet; it holds the colours for light, dark and print.
"""

from suffice.report.svg.drawing import draw, responsive
from suffice.report.svg.palette import CHART_STYLE

__all__ = ["CHART_STYLE", "draw", "responsive"]
