"""Small charts as inline SVG: no plotting library, and a report stays one file."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

WIDTH, HEIGHT, MARGIN = 360, 240, 40
#: Okabe and Ito's colour-blind-safe set.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")


def _x(value: float) -> float:
    return MARGIN + value * (WIDTH - 1.4 * MARGIN)


def _y(value: float) -> float:
    return HEIGHT - MARGIN - value * (HEIGHT - 1.5 * MARGIN)


def _title(text: str) -> str:
    centre = WIDTH / 2
    return (
        f'<text x="{centre}" y="13" text-anchor="middle" class="title">{html.escape(text)}</text>'
    )


def _frame(title: str, x_label: str, y_label: str, body: str) -> str:
    ticks = "".join(
        f'<line x1="{_x(t)}" y1="{_y(0)}" x2="{_x(t)}" y2="{_y(1)}" class="grid"/>'
        f'<line x1="{_x(0)}" y1="{_y(t)}" x2="{_x(1)}" y2="{_y(t)}" class="grid"/>'
        f'<text x="{_x(t)}" y="{_y(0) + 14}" text-anchor="middle">{t:g}</text>'
        f'<text x="{_x(0) - 5}" y="{_y(t) + 4}" text-anchor="end">{t:g}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" class="chart" role="img" '
        f'aria-label="{html.escape(title)}">{ticks}{body}'
        f"{_title(title)}"
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(x_label)}</text>'
        f'<text x="11" y="{HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 11 {HEIGHT / 2})">{html.escape(y_label)}</text></svg>'
    )


def _line(xs: ArrayLike, ys: ArrayLike, colour: str) -> str:
    import numpy as np

    points = " ".join(
        f"{_x(float(a)):.1f},{_y(float(b)):.1f}"
        for a, b in zip(np.asarray(xs).tolist(), np.asarray(ys).tolist(), strict=True)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>'


def lines(
    title: str,
    x_label: str,
    y_label: str,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    marker: float | None = None,
) -> str:
    """Curves in the unit square with a legend; ``marker`` draws a vertical line."""
    body = ""
    for number, (name, (xs, ys)) in enumerate(curves.items()):
        colour = PALETTE[number % len(PALETTE)]
        body += _line(xs, ys, colour)
        body += (
            f'<text x="{_x(1) - 4}" y="{_y(0) - 8 - 13 * number}" text-anchor="end" '
            f'fill="{colour}">{html.escape(name)}</text>'
        )
    if marker is not None:
        body += (
            f'<line x1="{_x(marker)}" y1="{_y(0)}" x2="{_x(marker)}" y2="{_y(1)}" '
            'stroke="#333" stroke-dasharray="4 3"/>'
        )
    return _frame(title, x_label, y_label, body)


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
    for number, (name, share) in enumerate(shares.items()):
        colour = PALETTE[number % len(PALETTE)]
        for i, value in enumerate(share.tolist()):
            high = value / top
            body += (
                f'<rect x="{_x(i / bins):.1f}" y="{_y(high):.1f}" '
                f'width="{_x(1 / bins) - _x(0) - 0.8:.1f}" height="{_y(0) - _y(high):.1f}" '
                f'fill="{colour}" fill-opacity="0.55"/>'
            )
        body += (
            f'<text x="{_x(0.5)}" y="{_y(1) + 12 + 13 * number}" text-anchor="middle" '
            f'fill="{colour}">{html.escape(name)} (n = {len(groups[name])})</text>'
        )
    if marker is not None:
        body += (
            f'<line x1="{_x(marker)}" y1="{_y(0)}" x2="{_x(marker)}" y2="{_y(1)}" '
            'stroke="#333" stroke-dasharray="4 3"/>'
        )
    return _frame(title, x_label, f"share (1 = {top:.2f})", body)


def bars(title: str, values: Mapping[str, tuple[float, str]]) -> str:
    """Horizontal bars in [0, 1]: name -> (value, note)."""
    row = 22
    height = 30 + row * max(1, len(values))
    body = _title(title)
    for number, (name, (value, note)) in enumerate(values.items()):
        y = 24 + row * number
        length = max(0.0, min(1.0, value)) * 150
        body += (
            f'<text x="118" y="{y + 12}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="124" y="{y + 2}" width="150" height="13" fill="#eee"/>'
            f'<rect x="124" y="{y + 2}" width="{length:.1f}" height="13" fill="{PALETTE[0]}"/>'
            f'<text x="280" y="{y + 12}">{value:.2f} {html.escape(note)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" class="chart" role="img" '
        f'aria-label="{html.escape(title)}">{body}</svg>'
    )
