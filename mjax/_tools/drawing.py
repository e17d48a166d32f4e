"""`debug.draw`: pictures of programs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import counted
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.runtime.dispatch.make_jaxpr import make_jaxpr
from mjax._tools.graphs import Graph, graph_of, printable
from mjax._tools.layered import svg

_SHAPES = {"input": "ellipse", "constant": "ellipse", "output": "ellipse", "equation": "box",
           "scope": "box3d"}


class Drawing:
    """A picture of a program, which notebooks show. `mjax.debug.draw` makes it.

    Attributes:
      dot: the graph in the language DOT, which Graphviz and others read.
      svg: an image in SVG, which browsers show.

    Example:
      >>> mjax.debug.draw(jnp.sin, 1.0)
      <Drawing of sin: 3 nodes>
    """

    def __init__(self, graph: Graph):
        self._graph = graph

    @functools.cached_property
    def dot(self) -> str:
        """The graph in DOT."""
        graph = self._graph
        lines = [f"digraph {_quoted(graph.name)} {{", "  node [fontname=monospace];",
                 "  edge [fontname=monospace, fontsize=10];"]
        lines += [f"  n{i} [label={_quoted(*node.label)}, shape={_SHAPES[node.kind]}, "
                  f"tooltip={_quoted(node.title)}];" for i, node in enumerate(graph.nodes)]
        lines += [f"  n{source} -> n{target} [label={_quoted(label)}];"
                  for (source, target), label in graph.edges.items()]
        return "\n".join([*lines, "}"])

    @functools.cached_property
    def svg(self) -> str:
        """The image in SVG."""
        return svg(self._graph)

    @boundary
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file: SVG, or DOT if its name ends with `.dot` or `.gv`.

        Args:
          path: the file.

        Raises:
          ValueError: its name ends otherwise.
        """
        kind = os.path.splitext(os.fspath(path))[1].lower()
        if kind not in (".svg", ".dot", ".gv"):
            msg = f"draw: the file has to end with .svg, .dot or .gv; it is {os.fspath(path)!r}."
            raise ValueError(msg)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg if kind == ".svg" else self.dot)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Drawing of {self._graph.name}: {counted(len(self._graph.nodes), 'node')}>"


@boundary
def draw(function: Callable[..., Any] | Jaxpr, *args: Any, max_nodes: int = 60,
         **kwargs: Any) -> Drawing:
    """Draws a program: its equations, and the types of the values that go from one to another.

    Equations of jitted functions are among the others. Those of loops and branches are counted.
    If there are more than `max_nodes` equations, scopes are folded: those of `named_scope`,
    jitted functions, and lines. The smallest are unfolded first.

    Args:
      function: a function of pytrees of arrays, which is traced and not run; or a jaxpr.
      args: the function's arguments, arrays or `ShapeDtypeStruct`s of any shapes and dtypes.
      max_nodes: the number of equations and folded scopes to aim at.
      kwargs: the function's keyword arguments.

    Returns:
      A `Drawing`, with `svg`, `dot` and `save`. Notebooks show it.

    Raises:
      TypeError: `function` is neither, or a jaxpr has arguments.
      ValueError: `max_nodes` is below 1.

    Example:
      >>> picture = mjax.debug.draw(lambda x, y: jnp.sin(x) * y, jnp.ones(3), 2.0)
      >>> print(picture.dot.splitlines()[-2])
        n3 -> n4 [label="f32[3]"];
    """
    if max_nodes < 1:
        msg = f"draw: max_nodes must be at least 1, got {max_nodes}."
        raise ValueError(msg)
    if isinstance(function, Jaxpr):
        if args or kwargs:
            msg = "draw: a jaxpr takes no arguments here: its types are known."
            raise TypeError(msg)
        return Drawing(graph_of(function, max_nodes))
    if not callable(function):
        msg = f"draw expects a function or a jaxpr, got {function!r} of {type(function).__name__}."
        raise TypeError(msg)
    return Drawing(graph_of(make_jaxpr(function)(*args, **kwargs), max_nodes))


def _quoted(*lines: str) -> str:
    escaped = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
