"""Small charts as inline SVG: no plotting library, and a report stays one file."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

WIDTH, HEIGHT = 360, 264
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 44
#: Height of a line of the legend, which stands under the chart.
LINE = 14
#: Okabe and Ito's colour-blind-safe set.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")


def _x(value: float) -> float:
    return LEFT + value * (WIDTH - LEFT - RIGHT)


def _y(value: float) -> float:
    return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(text)}</text>'


def _svg(title: str, height: float, body: str) -> str:
    head = _text(WIDTH / 2, 14, title, extra=' class="title"')
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" class="chart" role="img" '
        f'aria-label="{html.escape(title)}">{head}{body}</svg>'
    )


def _frame(
    title: str, x_label: str, y_label: str, body: str, legend: Sequence[str], top: float = 1.0
) -> str:
    """A unit square with ticks and labels; ``top`` is what the upper end of y stands for."""
    ticks = "".join(
        f'<line x1="{_x(t):.1f}" y1="{_y(0):.1f}" x2="{_x(t):.1f}" y2="{_y(1):.1f}" class="grid"/>'
        f'<line x1="{_x(0):.1f}" y1="{_y(t):.1f}" x2="{_x(1):.1f}" y2="{_y(t):.1f}" class="grid"/>'
        + _text(_x(t), _y(0) + 14, f"{t:g}")
        + _text(_x(0) - 5, _y(t) + 4, f"{t * top:.2g}", "end")
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    middle = (_y(0) + _y(1)) / 2
    turned = f' transform="rotate(-90 13 {middle:.1f})"'
    labels = _text(_x(0.5), HEIGHT - 12, x_label) + _text(13, middle, y_label, extra=turned)
    entries = "".join(
        f'<rect x="{LEFT}" y="{HEIGHT + LINE * i - 2:.1f}" width="14" height="8" '
        f'fill="{PALETTE[i % len(PALETTE)]}"/>'
        + _text(LEFT + 20, HEIGHT + LINE * i + 6, name, "start")
        for i, name in enumerate(legend)
    )
    height = HEIGHT + LINE * len(legend) + 8
    return _svg(title, height, ticks + body + labels + entries)


def _line(xs: ArrayLike, ys: ArrayLike, colour: str) -> str:
    import numpy as np

    points = " ".join(
        f"{_x(float(a)):.1f},{_y(float(b)):.1f}"
        for a, b in zip(np.asarray(xs).tolist(), np.asarray(ys).tolist(), strict=True)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>'


def _marker(at: float | None) -> str:
    if at is None:
        return ""
    return (
        f'<line x1="{_x(at):.1f}" y1="{_y(0):.1f}" x2="{_x(at):.1f}" y2="{_y(1):.1f}" '
        'stroke="#333" stroke-dasharray="4 3"/>' + _text(_x(at) + 3, _y(1) + 9, "τ", "start")
    )


def lines(
    title: str,
    x_label: str,
    y_label: str,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    marker: float | None = None,
    diagonal: bool = False,
) -> str:
    """Curves in the unit square with a legend; ``marker`` draws the threshold."""
    body = _marker(marker)
    if diagonal:
        body += (
            f'<line x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}" '
            'stroke="#999" stroke-dasharray="2 3"/>'
        )
    for number, (xs, ys) in enumerate(curves.values()):
        body += _line(xs, ys, PALETTE[number % len(PALETTE)])
    return _frame(title, x_label, y_label, body, list(curves))


def histogram(
    title: str,
    x_label: str,
    groups: Mapping[str, Sequence[float]],
    marker: float | None = None,
    bins: int = 20,
) -> str:
    """Shares of values in [0, 1] by group, drawn over each other."""
    import numpy as np

    shares = {
        name: np.histogram(values, bins=bins, range=(0.0, 1.0))[0] / max(1, len(values))
        for name, values in groups.items()
    }
    top = max((float(s.max()) for s in shares.values()), default=0.0) or 1.0
    body = ""
    for number, share in enumerate(shares.values()):
        for i, value in enumerate(share.tolist()):
            high = value / top
            body += (
                f'<rect x="{_x(i / bins):.1f}" y="{_y(high):.1f}" '
                f'width="{_x(1 / bins) - _x(0) - 0.8:.1f}" height="{_y(0) - _y(high):.1f}" '
                f'fill="{PALETTE[number % len(PALETTE)]}" fill-opacity="0.55"/>'
            )
    legend = [f"{name} (n = {len(values)})" for name, values in groups.items()]
    return _frame(title, x_label, "share of its class", body + _marker(marker), legend, top)


def bars(title: str, values: Mapping[str, tuple[float, str]]) -> str:
    """Horizontal bars in [0, 1]: name -> (value, note)."""
    row, start, length = 22, 144, 116
    body = ""
    for number, (name, (value, note)) in enumerate(values.items()):
        y = 26 + row * number
        filled = max(0.0, min(1.0, value)) * length
        body += (
            _text(start - 6, y + 12, name, "end")
            + f'<rect x="{start}" y="{y + 2}" width="{length}" height="13" fill="#eee"/>'
            + f'<rect x="{start}" y="{y + 2}" width="{filled:.1f}" height="13" '
            f'fill="{PALETTE[0]}"/>'
            + _text(start + length + 6, y + 12, f"{value:.2f} {note}", "start")
        )
    return _svg(title, 34 + row * max(1, len(values)), body)
