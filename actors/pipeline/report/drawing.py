"""How every picture looks, and matplotlib as a maker of SVG.

A picture is drawn twice, for a screen and for a telephone, in units of CSS pixels. Its colours are
names (`INK`, `SERIES`) that matplotlib takes for colours; `svg` makes the page's variables of them,
so one picture is light or dark as the page is. Nothing is shown by colour alone: curves differ in
dashes, roles in height.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from actors.pipeline.report.html import Html, for_page
from actors.pipeline.report.time_axis import TimeAxis
from actors.readable import readable

INK: Final = "#010000"
FAINT: Final = "#010001"
GRID: Final = "#010002"
PAPER: Final = "#010003"
BAD: Final = "#010004"
SERIES: Final = tuple(f"#01001{number}" for number in range(6))
VARIABLES: Final = {
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    PAPER: "paper",
    BAD: "bad",
    **{color: f"series-{number}" for number, color in enumerate(SERIES)},
}
"""By each colour that matplotlib writes, the variable of the page's style that replaces it."""
DASHES: Final[Sequence[Any]] = (
    "solid",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (7, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (9, 3)),
)
"""The line styles of curves, one for each colour in SERIES."""
WIDE_PX: Final = 1040
NARROW_PX: Final = 358
"""The width of a picture on a telephone: 390 pixels without the margins."""
LABEL_MAX: Final = 24
SAYS_MAX: Final = 1000
TICKS_APART_PX: Final = 78
LEGEND_ROW_PX: Final = 18
LEGEND_ROWS_MIN: Final = 3
"""The rows of a legend for which a telephone's picture always has room."""
LEGEND_KEY_PX: Final = 46
LETTER_PX: Final = 6.5
LEFT_PX: Final = 64
RIGHT_PX: Final = 28
"""The margin on the right, in which half of the last label of time is drawn."""
_DPI: Final = 72
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": INK,
    "font.size": 12,
    "axes.labelsize": 12,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.labelcolor": FAINT,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "lines.linewidth": 1.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
}


@attrs.frozen(kw_only=True)
class Picture:
    """A picture for a page, drawn for a wide and for a narrow screen.

    Attributes:
        name: its name in lower case, unique on a page.
        title: what the picture shows.
        says: the main figures in words, for readers who do not see the picture.
    """

    name: str
    title: str
    says: str
    wide: Html
    narrow: Html


@attrs.define
class Sheet:
    """One drawing under way.

    Attributes:
        tips: by the gid of an element, the text that is shown while a reader points at it.
    """

    figure: Figure
    width_px: int
    tips: dict[str, str] = attrs.field(factory=dict)

    @property
    def is_narrow(self) -> bool:
        return self.width_px < WIDE_PX

    def rows(
        self, heights_px: Sequence[float], legends: Sequence[Sequence[Artist]] = ()
    ) -> list[Axes]:
        """Add panels below each other, with room for their labels, and return them.

        Args:
            heights_px: the height of each panel without its labels.
            legends: the keys of each legend that will be drawn. On a telephone a legend can need
                several rows.
        """
        keys = max((self._legend_rows(each) for each in legends), default=LEGEND_ROWS_MIN)
        rows_px = LEGEND_ROW_PX * max(keys, LEGEND_ROWS_MIN)
        over, under, left, right = (22 + rows_px if self.is_narrow else 40), 24, LEFT_PX, RIGHT_PX
        height = sum(heights_px) + (over + under) * len(heights_px) + 26
        self.figure.set_size_inches(self.width_px / _DPI, height / _DPI)
        found, top = [], height
        for inside in heights_px:
            top -= over + inside
            width = self.width_px - left - right
            found.append(
                self.figure.add_axes(
                    (left / self.width_px, top / height, width / self.width_px, inside / height)
                )
            )
            top -= under
        return found

    def title(self, panel: Axes, text: str, legend_rows: int = 0) -> None:
        """Write a title above a panel, and on a telephone above the panel's legend."""
        panel.set_title(
            readable(text), pad=6 + (LEGEND_ROW_PX * legend_rows if self.is_narrow else 0)
        )

    def numbers(self, panel: Axes, title: str, legend_rows: int = 0) -> None:
        """Let a panel's y axis begin at 0, with short labels such as "1.2 M"."""
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        self.title(panel, title, legend_rows)

    def legend(self, panel: Axes, keys: Sequence[Artist]) -> int:
        """Draw a legend above a panel, beside or below the title, and return its number of rows."""
        rows = self._legend_rows(keys)
        panel.legend(
            handles=list(keys),
            loc="lower left" if self.is_narrow else "lower right",
            bbox_to_anchor=(-0.15, 1.0) if self.is_narrow else (1.0, 1.0),
            ncols=-(-len(keys) // rows),
            borderaxespad=0.2,
            borderpad=0.1,
            handlelength=2.4,
            columnspacing=1.2,
            labelspacing=0.3,
        )
        return rows

    def _legend_rows(self, keys: Sequence[Artist]) -> int:
        longest_px = max(LEGEND_KEY_PX + LETTER_PX * len(str(each.get_label())) for each in keys)
        room_px = self.width_px - LEFT_PX
        columns = max(1, min(len(keys), int(room_px // longest_px)))
        return -(-len(keys) // columns)

    def tip(self, text: str) -> str:
        """Return a new gid for an element that shows a text to a reader who points at it."""
        gid = f"tip{len(self.tips)}"
        self.tips[gid] = readable(text)
        return gid

    def over_time(self, panel: Axes, axis: TimeAxis, *, labelled: bool) -> None:
        """Let a panel's x axis be the time.

        Args:
            labelled: whether moments and the day are written below the panel.
        """
        panel.set_xlim(0, axis.width_s)
        ticks = axis.ticks(max(2, self.width_px // TICKS_APART_PX))
        panel.set_xticks([tick.at for tick in ticks], [tick.label for tick in ticks])
        for start in axis.starts[1:]:
            panel.axvspan(start - axis.gap_s, start, color=GRID, linewidth=0)
        if labelled:
            panel.set_xlabel(axis.label)


def picture(name: str, title: str, says: str, draw: Callable[[Sheet], None]) -> Picture:
    """Return a picture that `draw` draws once for each width."""
    says = readable(says, SAYS_MAX)
    wide, narrow = (
        _drawn(f"{name}-{size}", title, says, draw, width)
        for size, width in (("wide", WIDE_PX), ("narrow", NARROW_PX))
    )
    return Picture(name=name, title=title, says=says, wide=wide, narrow=narrow)


def _drawn(name: str, title: str, says: str, draw: Callable[[Sheet], None], width: int) -> Html:
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(dpi=_DPI)
        FigureCanvasSVG(figure)
        sheet = Sheet(figure, width)
        draw(sheet)
        file = io.StringIO()
        with (
            warnings.catch_warnings()
        ):  # a letter that matplotlib's font lacks; the page has others
            warnings.filterwarnings("ignore", message="Glyph")
            figure.savefig(file, format="svg", dpi=_DPI, metadata={"Date": None})
    return for_page(file.getvalue(), name, title, says, VARIABLES, sheet.tips)


def short(value: float) -> str:
    """Return a number with three significant digits: "1.23 M" for 1234567."""
    for factor, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}"


def waited(ms: float) -> str:
    """Return milliseconds in a readable unit: "0.25 ms" for 0.25, "2.18 s" for 2180."""
    if abs(ms) < 999.5:
        return f"{short(ms)} ms"
    return f"{short(ms / 1000)} s" if abs(ms) < 999_500 else f"{ms / 1000:,.0f} s"


def name(text: str) -> str:
    """Return a name that was read from a log, shortened and without control characters."""
    return readable(text, LABEL_MAX)
