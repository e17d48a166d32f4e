"""Graphs as SVG: nodes in layers, edges that run between them.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system
structures" (1981): layers by the longest path, then sweeps that sort each by the means of its
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise

from mjax._engine.base.util import counted
from mjax._tools.graphs import Graph, Node, printable

_CHARACTER, _LINE, _PADDING = 7.3, 15, 8
_LABEL_CHARACTER, _LABEL_LINE = 6.1, 12
_BETWEEN, _LAYER = 28, 52
_SWEEPS = 6
#: Kind of node -> fill, stroke, radius of the corners.
_LOOKS = {
    "input": ("#e3f0e6", "#3b7a57", 14), "constant": ("#f0eee3", "#7a6a00", 14),
    "output": ("#f3e3ee", "#a23b72", 14), "equation": ("#e6eef5", "#33658a", 3),
    "scope": ("#ece6f5", "#6a4c93", 3)}


class _Layout:
    """The places of nodes; edges over several layers have a bend in each between.

    Attributes:
      layers: numbers of nodes and bends, from left to right. Bends follow the nodes.
      depth: the layer of each.
      x, y: the middle of each.
    """

    def __init__(self, graph: Graph):
        self.nodes = graph.nodes
        self.width: list[float] = [_width(node) for node in graph.nodes]
        self.height = max((_height(node) for node in graph.nodes), default=0)
        depth = self.depth = _depths(len(graph.nodes), graph.edges)
        #: Edge -> its nodes and bends in order.
        self.routes: dict[tuple[int, int], list[int]] = {}
        for source, target in graph.edges:
            route = [source]
            for d in range(depth[source] + 1, depth[target]):
                route.append(len(depth))
                depth.append(d)
                self.width.append(10)
            self.routes[source, target] = [*route, target]
        self.layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for node, d in enumerate(depth):
            self.layers[d].append(node)
        self._sort()
        self.x, self.y = self._places()

    def _neighbours(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        above: dict[int, list[int]] = {}
        below: dict[int, list[int]] = {}
        for route in self.routes.values():
            for a, b in pairwise(route):
                if self.depth[a] < self.depth[b]:  # edges of cycles between folded scopes go up
                    above.setdefault(b, []).append(a)
                    below.setdefault(a, []).append(b)
        return above, below

    def _sort(self) -> None:
        above, below = self._neighbours()
        place = {n: float(i) for layer in self.layers for i, n in enumerate(layer)}
        for sweep in range(_SWEEPS):
            near, layers = (above, self.layers) if sweep % 2 == 0 else (below, self.layers[::-1])
            for layer in layers:
                layer.sort(key=lambda n: _mean([place[m] for m in near.get(n, ())], place[n]))
                place.update({n: float(i) for i, n in enumerate(layer)})

    def _places(self) -> tuple[dict[int, float], dict[int, float]]:
        """Each node below the mean of those above, as far as there is room."""
        above, _ = self._neighbours()
        x: dict[int, float] = {}
        for layer in self.layers:
            edge = float("-inf")
            moved = []
            for n in layer:
                wanted = _mean([x[m] for m in above.get(n, ())], 0.0)
                x[n] = max(wanted, edge + self.width[n] / 2)
                edge = x[n] + self.width[n] / 2 + _BETWEEN
                moved.append(x[n] - wanted)
            shift = _mean(moved, 0.0)
            for n in layer:
                x[n] -= shift
        left = min((x[n] - self.width[n] / 2 for n in x), default=0)
        step = self.height + _LAYER
        return ({n: at - left + _PADDING for n, at in x.items()},
                {n: d * step + self.height / 2 + _PADDING for n, d in enumerate(self.depth)})


def svg(graph: Graph) -> str:
    """The picture of a graph, as an image of its own."""
    layout = _Layout(graph)
    wide = max((layout.x[n] + w / 2 for n, w in enumerate(layout.width)), default=0) + _PADDING
    tall = len(layout.layers) * (layout.height + _LAYER) - _LAYER + 2 * _PADDING
    parts = [*_edges(graph, layout, wide), *_nodes(graph, layout)]
    title = _text(f"{graph.name}: {counted(len(graph.nodes), 'node')}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{tall:.0f}" '
            f'viewBox="0 0 {wide:.0f} {tall:.0f}" font-family="monospace" font-size="12">'
            f'<title>{title}</title><rect width="100%" height="100%" fill="white"/>'
            f'<defs><marker id="mjax-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker>'
            f'</defs>{"".join(parts)}</svg>')


def _edges(graph: Graph, layout: _Layout, wide: float) -> Iterable[str]:
    labels: dict[int, list[_Box]] = {}
    for edge, label in graph.edges.items():
        route = layout.routes[edge]
        points = [(layout.x[n], layout.y[n]) for n in route]
        down = 1 if layout.depth[edge[0]] < layout.depth[edge[1]] else -1
        for end, sign in ((0, down), (-1, -down)):
            half = _height(graph.nodes[route[end]]) / 2
            points[end] = points[end][0], points[end][1] + sign * half
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(
            f" C{a:.1f} {(b + d) / 2:.1f} {c:.1f} {(b + d) / 2:.1f} {c:.1f} {d:.1f}"
            for (a, b), (c, d) in pairwise(points))
        yield f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#mjax-arrow)"/>'
        others = labels.setdefault(layout.depth[edge[0]], [])
        x, y = _place(label, points[0], points[1], others, wide)
        yield (f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" '
               f'font-size="10" fill="#333" stroke="white" stroke-width="3" '
               f'paint-order="stroke">{_text(label)}</text>')


#: The middle of a label, and the half of its width.
_Box = tuple[float, float, float]


def _place(label: str, start: tuple[float, float], end: tuple[float, float], others: list[_Box],
           wide: float) -> tuple[float, float]:
    """The middle of a label on the first curve of its edge, beside those of its layer."""
    (a, b), (c, d) = start, end
    half = len(label) * _LABEL_CHARACTER / 2 + 2
    best: tuple[float, float, float] | None = None
    for t in (0.5, 0.7, 0.3, 0.85, 0.15):
        x = min(max(a + (c - a) * (3 - 2 * t) * t * t, half), max(wide - half, half))
        y = b + (d - b) * (1.5 * t * (1 - t) + t ** 3)
        covered = sum(max(0.0, half + h - abs(x - u)) for u, v, h in others
                      if abs(y - v) < _LABEL_LINE)
        if best is None or covered < best[0]:
            best = covered, x, y
    assert best is not None
    others.append((best[1], best[2], half))
    return best[1], best[2]


def _nodes(graph: Graph, layout: _Layout) -> Iterable[str]:
    for n, node in enumerate(graph.nodes):
        fill, stroke, radius = _LOOKS[node.kind]
        width, height = layout.width[n], _height(node)
        x, y = layout.x[n], layout.y[n]
        yield (f'<g class="{node.kind}"><title>{_text(node.title)}</title>'
               f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
               f'height="{height}" rx="{radius}" fill="{fill}" stroke="{stroke}"/>')
        top = y - _LINE * (len(node.label) - 1) / 2 + 4
        for i, line in enumerate(node.label):
            yield (f'<text x="{x:.1f}" y="{top + i * _LINE:.1f}" '
                   f'text-anchor="middle" fill="black">{_text(line)}</text>')
        yield "</g>"


def _text(text: str) -> str:
    return escape(printable(text))


def _width(node: Node) -> float:
    return _CHARACTER * max(map(len, node.label)) + 2 * _PADDING


def _height(node: Node) -> int:
    return _LINE * len(node.label) + _PADDING


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _depths(count: int, edges: Mapping[tuple[int, int], str]) -> list[int]:
    """The layer of each node: below all that it needs, results at the bottom of their path."""
    depth = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        if source < target:  # a folded scope may also read what comes after its first equation
            depth[target] = max(depth[target], depth[source] + 1)
    return depth
