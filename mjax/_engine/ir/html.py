"""Jaxprs and meshes as HTML, for notebooks."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from mjax._engine.ir.pprint import Printer, bodies_of, shown_params
from mjax._engine.ir.source import Frame, user_frame

#: Backgrounds of the cells of pictures, in turn; text on them is white.
COLOURS = ("#33658a", "#a23b72", "#3b7a57", "#8a5a00", "#6a4c93", "#7a6a00", "#006d77", "#9d3c3c")
_CODE = "font-family:monospace;white-space:pre;line-height:1.35"
_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 76, 30, 22
#: Equations of a nested program up to which it is shown unfolded.
_UNFOLDED = 3


# -- jaxprs --


def jaxpr_html(jaxpr: Any) -> str:
    """A program, its nested programs folded, each equation linked to its line of source."""
    return f'<div class="mjax-jaxpr" style="{_CODE}">{_Writer().jaxpr(jaxpr, "")}</div>'


class _Writer:
    """Writes jaxprs with the names that the printer of text gives to variables."""

    def __init__(self) -> None:
        self.printer = Printer(source_info=False, use_color=False)

    def jaxpr(self, jaxpr: Any, indent: str) -> str:
        printer = self.printer
        printer.reads(jaxpr)
        head = escape(printer.head(jaxpr))
        body = "".join(self.eqn(eqn, indent + "    ") for eqn in jaxpr.eqns)
        return f"{indent}{head}\n{body}{indent}  {escape(printer.tail(jaxpr))}"

    def eqn(self, eqn: Any, indent: str) -> str:
        printer = self.printer
        frame = user_frame(eqn.source)
        spelled = getattr(eqn.primitive, "spelled", None)
        if spelled is not None:
            line = spelled([printer.result(v) for v in eqn.outvars if v in printer.used],
                           list(map(printer.atom, eqn.invars)), eqn.params)
            return f"{indent}{_linked(line, frame)}\n"
        left = " ".join(map(printer.result, eqn.outvars))
        left = f"{escape(left)} = " if left else ""
        params = shown_params(eqn.primitive, eqn.params)
        bodies = bodies_of(eqn.primitive, params)
        plain = " ".join(f"{k}={printer.param(v)}" for k, v in sorted(params.items())
                         if k not in bodies)
        inner = "".join(self.folded(title, program, indent + "  ") for name in sorted(params)
                        if name in bodies for title, program in _titled(name, params[name]))
        right = " ".join(map(printer.atom, eqn.invars))
        line = (f"{indent}{left}<b>{_linked(eqn.primitive.name, frame)}</b>"
                f"{escape(f'[{plain}]') if plain else ''} {escape(right)}")
        return f"{line.rstrip()}\n{inner}"

    def folded(self, title: str, program: Any, indent: str) -> str:
        count = len(program.eqns)
        body = self.jaxpr(program, "")  # the block is indented as a whole
        title = f"{title}: {count} equation{'s' * (count != 1)}"
        return (f'{indent}<details{" open" * (count <= _UNFOLDED)} style="display:inline-block;'
                f'vertical-align:top"><summary>{escape(title)}</summary>{body}</details>\n')


def _titled(name: str, value: Any) -> list[tuple[str, Any]]:
    """The programs in a param; several are numbered."""
    programs = _programs(value)
    return [(f"{name}[{i}]" if len(programs) > 1 else name, p) for i, p in enumerate(programs)]


def _programs(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [program for part in value for program in _programs(part)]
    return [value] if hasattr(value, "eqns") else []


def _linked(text: str, frame: Frame | None) -> str:
    """Text that leads to a line of source, if its file exists."""
    if frame is None:
        return escape(text)
    where = escape(f"{frame.file}:{frame.line} ({frame.function})", quote=True)
    path = pathlib.Path(frame.file)
    if not path.is_file():  # a cell of a notebook
        return f'<span title="{where}">{escape(text)}</span>'
    link = escape(f"{path.absolute().as_uri()}#L{frame.line}", quote=True)
    return (f'<a href="{link}" title="{where}" style="color:inherit;text-decoration:underline '
            f'dotted">{escape(text)}</a>')


# -- meshes --


def mesh_html(mesh: Any) -> str:
    """A mesh: its devices in the place they have along its axes."""
    devices = getattr(mesh, "devices", None) if hasattr(type(mesh), "devices") else None
    names = [""] * mesh.size if devices is None else [str(d.id) for d in devices.flat]
    kinds = [] if devices is None else sorted({device.platform for device in devices.flat})
    sizes = ", ".join(f"{name}: {size}" for name, size in mesh.shape.items())
    text = f"{type(mesh).__name__}({sizes})" + (f" of {', '.join(kinds)}" if kinds else "")
    if not mesh.size:
        return framed(text, "")
    labels = np.array(names, object).reshape(mesh.axis_sizes)
    return framed(text, panels(labels, tuple(map(str, mesh.axis_names))))


def framed(text: str, picture: str) -> str:
    """A line of text above a picture."""
    return f'<div class="mjax"><code>{escape(text)}</code>{picture}</div>'


def panels(labels: Any, axes: Sequence[str], colours: Any = None, limit: int = 1024) -> str:
    """Cells of labels as SVG: the last two dimensions are a grid, and each index of the others has
    a grid of its own.

    Args:
      labels: an array of texts.
      axes: the name of each dimension.
      colours: numbers of the cells' colours, in the shape of `labels`; default: all differ.
      limit: the number of cells up to which there is a picture.
    """
    if labels.size > limit:
        return f"<div>{labels.size} cells are too many for a picture.</div>"
    while labels.ndim < 2:
        labels, axes = labels[None], ("", *axes)
    colours = np.arange(labels.size) if colours is None else colours
    colours = np.asarray(colours).reshape(labels.shape)
    found = []
    for index in np.ndindex(labels.shape[:-2]):
        title = ", ".join(f"{name}={i}" for name, i in zip(axes, index) if name)
        found.append(_grid(labels[index], colours[index], title, axes[-2], axes[-1]))
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(found)}</div>'


def _grid(labels: Any, colours: Any, title: str, down: str, across: str) -> str:
    rows, columns = labels.shape
    longest = max(map(len, labels.flat), default=0)
    width, height = max(_CELL_WIDTH, 8 * longest + 12), _CELL_HEIGHT
    left, top = (_MARGIN if down else 2), (_MARGIN if across or title else 2)
    parts = list(_texts(title, down, across, left, top, rows * height))
    for i, j in np.ndindex(rows, columns):
        x, y = left + j * width, top + i * height
        colour = COLOURS[int(colours[i, j]) % len(COLOURS)]
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}" '
            f'stroke="white"/><text x="{x + width / 2}" y="{y + height / 2 + 4}" fill="white" '
            f'text-anchor="middle">{escape(labels[i, j])}</text>')
    whole, tall = left + columns * width + 2, top + rows * height + 2
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{tall}" '
            f'viewBox="0 0 {whole} {tall}" font-family="monospace" font-size="12">'
            f'{"".join(parts)}</svg>')


def _texts(title: str, down: str, across: str, left: int, top: int, tall: int) -> Iterable[str]:
    """The names of the axes, beside their cells."""
    above = " ".join(part for part in (f"{title}:" if title else "", f"{across} →" * bool(across))
                     if part)
    if above:
        yield f'<text x="{left}" y="{top - 7}" fill="currentColor">{escape(above)}</text>'
    if down:
        yield (f'<text x="{-top - tall / 2}" y="14" transform="rotate(-90)" text-anchor="middle" '
               f'fill="currentColor">← {escape(down)}</text>')
