"""The picture at the end of digits.py: the loss of each epoch, and the digits that were misread.

As an image in SVG, which browsers show, and as text for terminals. Both need NumPy alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

WIDTH, HEIGHT, MARGIN, PIXEL = 560, 240, 48, 9
BLOCKS = "▁▂▃▄▅▆▇█"
#: Digits that fit into one row of a terminal, or of the image.
ROW = 8
Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def svg(losses: Sequence[float], images: Numbers, labels: Numbers, guesses: Numbers) -> str:
    """The image.

    Args:
      losses: of the epochs.
      images: misread ones, [n, 8, 8], from 0 (white) to 1.
      labels: what they are, [n].
      guesses: what they were taken for, [n].
    """
    rows = -(-len(images) // ROW)
    cell = 8 * PIXEL + 24
    tall = HEIGHT + 2 * MARGIN + rows * (cell + 12) + 20
    parts = [_text(MARGIN, 24, "loss of the training batches, by epoch (logarithmic)"),
             *_curve(losses),
             _text(MARGIN, HEIGHT + 2 * MARGIN - 4,
                   f"{len(images)} misread digits of the test set (digit → guess)")]
    for n, (image, label, guess) in enumerate(zip(images, labels, guesses)):
        x = MARGIN + n % ROW * cell
        y = HEIGHT + 2 * MARGIN + 8 + n // ROW * (cell + 12)
        parts += [f'<rect x="{x + j * PIXEL}" y="{y + i * PIXEL}" width="{PIXEL}" '
                  f'height="{PIXEL}" fill="rgb({shade},{shade},{shade})"/>'
                  for (i, j), value in np.ndenumerate(image)
                  for shade in [round(255 * (1 - float(value)))]]
        parts += [f'<rect x="{x}" y="{y}" width="{8 * PIXEL}" height="{8 * PIXEL}" fill="none" '
                  'stroke="#999"/>', _text(x, y + 8 * PIXEL + 15, f"{label} → {guess}")]
    wide = max(WIDTH + 2 * MARGIN, MARGIN + ROW * cell)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall}" '
            f'viewBox="0 0 {wide} {tall}" font-family="sans-serif" font-size="13">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def _curve(losses: Sequence[float]) -> Iterator[str]:
    """Axes with the powers of ten between, and the curve."""
    logs = np.log10(np.maximum(losses, 1e-12))
    low, high = math.floor(logs.min()), max(math.ceil(logs.max()), math.floor(logs.min()) + 1)
    top, bottom, right = MARGIN, MARGIN + HEIGHT - 20, MARGIN + WIDTH

    def at(log: float) -> float:
        return float(bottom - (log - low) / (high - low) * (bottom - top))

    for power in range(low, high + 1):
        y = at(power)
        yield f'<line x1="{MARGIN}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(6, y + 4, f"1e{power}")
    step = WIDTH / max(len(logs) - 1, 1)
    points = " ".join(f"{MARGIN + i * step:.1f},{at(log):.1f}" for i, log in enumerate(logs))
    yield f'<polyline points="{points}" fill="none" stroke="#33658a" stroke-width="2"/>'
    yield _text(MARGIN, bottom + 16, "1")
    yield _text(right - 16, bottom + 16, str(len(logs)))


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y:.0f}" fill="#222">{text}</text>'


def text(losses: Sequence[float], images: Numbers, labels: Numbers, guesses: Numbers,
         colour: bool) -> str:
    """The picture for a terminal; the arguments as in `svg`.

    Args:
      colour: whether the terminal knows the 24 grays of 256 colours.
    """
    logs = np.log10(np.maximum(losses, 1e-12))
    steps = (logs - logs.min()) / max(float(np.ptp(logs)), 1e-12) * (len(BLOCKS) - 1)
    lines = [f"loss {losses[0]:.3f} {''.join(BLOCKS[round(s)] for s in steps)} {losses[-1]:.4f}"]
    for start in range(0, len(images), ROW):
        chosen = range(start, min(start + ROW, len(images)))
        lines.append("")
        lines.append("  ".join(f"{f'{labels[n]} → {guesses[n]}':^8}" for n in chosen))
        for i in range(0, 8, 2):
            lines.append("  ".join("".join(_half(images[n][i, j], images[n][i + 1, j], colour)
                                           for j in range(8)) for n in chosen))
    return "\n".join(lines)


def _half(upper: float, lower: float, colour: bool) -> str:
    """One character for two pixels, one above the other."""
    if colour:
        fore, back = (255 - round(23 * float(value)) for value in (upper, lower))
        return f"\x1b[38;5;{fore};48;5;{back}m▀\x1b[0m"
    return " ▀▄█"[(upper > 0.5) + 2 * (lower > 0.5)]


def terminal() -> tuple[bool, bool]:
    """Whether the output shows the characters of `text`, and whether in colours."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return encoding == "utf8", sys.stdout.isatty()
