"""`debug.draw`: the graph, as DOT and as SVG that the standard library reads."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._tools.graphs import graph_of


def _dot(drawing):
    """Labels of nodes by name, and edges with their labels."""
    nodes = dict(re.findall(r'^  (n\d+) \[label="((?:[^"\\]|\\.)*)"', drawing.dot, re.MULTILINE))
    edges = re.findall(r'^  (n\d+) -> (n\d+) \[label="((?:[^"\\]|\\.)*)"', drawing.dot,
                       re.MULTILINE)
    return nodes, {(nodes[a], nodes[b]): label for a, b, label in edges}


def _svg(drawing):
    """Texts of nodes by kind, the labels of edges, the number of curves."""
    root = ElementTree.fromstring(drawing.svg)
    space = "{http://www.w3.org/2000/svg}"
    groups = [(g.get("class"), [t.text for t in g.findall(f"{space}text")])
              for g in root.findall(f"{space}g")]
    return groups, [t.text for t in root.findall(f"{space}text")], len(
        root.findall(f"{space}path"))


def _f(x, w):
    y = jnp.tanh(x @ w)
    return y * 2.0, y


ARGS = jnp.ones((2, 3)), jnp.ones((3, 4))
NODES = ["x\\nf32[2,3]", "w\\nf32[3,4]", "dot_general", "tanh", "mul 2.0",
         "result 0\\nf32[2,4]", "result 1\\nf32[2,4]"]
X, W, DOT, TANH, MUL, FIRST, SECOND = NODES
EDGES = {(X, DOT): "f32[2,3]", (W, DOT): "f32[3,4]", (DOT, TANH): "f32[2,4]",
         (TANH, MUL): "f32[2,4]", (MUL, FIRST): "f32[2,4]", (TANH, SECOND): "f32[2,4]"}


@pytest.mark.parametrize("draw", [
    lambda: mjax.debug.draw(_f, *ARGS), lambda: mjax.debug.draw(mjax.jit(_f), *ARGS),
    lambda: mjax.debug.draw(mjax.make_jaxpr(_f)(*ARGS)),
    lambda: mjax.debug.draw(_f, *map(mjax.typeof, ARGS))])
def test_the_graph_of_a_function(draw):
    drawing = draw()
    nodes, edges = _dot(drawing)
    assert list(nodes.values()) == NODES and edges == EDGES
    groups, labels, curves = _svg(drawing)
    assert ["\\n".join(text) for _, text in groups] == NODES
    assert [kind for kind, _ in groups] == ["input"] * 2 + ["equation"] * 3 + ["output"] * 2
    assert sorted(labels) == sorted(EDGES.values()) and curves == len(EDGES)


def test_repr():
    assert repr(mjax.debug.draw(_f, *ARGS)) == "<Drawing of _f: 7 nodes>"


def test_one_thing_is_not_several():
    nodes, _ = _dot(mjax.debug.draw(lambda x: lax.map(jnp.sin, x), jnp.ones(3)))
    assert repr(mjax.debug.draw(lambda: 1.0)) == "<Drawing of <lambda>: 1 node>"
    assert "scan\\nof 1 equation" in nodes.values()


def test_nested_programs_are_counted():
    def f(x):
        return lax.cond(x > 0, lambda x: jnp.sin(x) + 1, jnp.cos, x)

    nodes, _ = _dot(mjax.debug.draw(f, 1.0))
    assert "cond\\nof 1 and 2 equations" in nodes.values()


def test_constants_and_unused_results():
    table = jnp.arange(3.0)
    nodes, edges = _dot(mjax.debug.draw(lambda x: (x + table, 1.0), jnp.ones(3)))
    assert edges["constant\\nf32[3]", "add"] == "f32[3]"
    assert [label for label in nodes.values() if label.startswith("result")] == [
        "result 0\\nf32[3]", "result 1\\n1.0"]


def test_literals_of_jitted_calls():
    inner = mjax.jit(lambda x, y: x * y)
    nodes, edges = _dot(mjax.debug.draw(lambda x: inner(x, 2.0), 1.0))
    assert [pair for pair in edges if pair[0].startswith("x")] == [("x\\nf32[]", "mul")]
    assert len(nodes) == 3


def _layers(x):
    for i in range(8):
        with mjax.named_scope(f"layer{i}"):
            x = jnp.cos(jnp.sin(x) * x)
            x = jnp.tanh(x)
    return jnp.exp(x)


@pytest.mark.parametrize("limit, scopes", [(100, 0), (60, 0), (20, 4), (9, 8)])
def test_scopes_are_folded(limit, scopes):
    drawing = mjax.debug.draw(_layers, 1.0, max_nodes=limit)
    groups, _, _ = _svg(drawing)
    inside = [text for kind, text in groups if kind in ("equation", "scope")]
    folded = [text for kind, text in groups if kind == "scope"]
    assert len(inside) <= limit
    counts = [int(text[-1].removesuffix(" equations")) for text in folded]
    assert sum(counts) + len(inside) - len(folded) == len(mjax.make_jaxpr(_layers)(1.0).eqns)
    assert sum(text[0].startswith("layer") for text in folded) >= scopes
    assert len({text[0] for text in folded}) <= 8 and bool(folded) == bool(scopes)


def test_folded_scopes_may_depend_on_each_other():
    def f(x):
        for _ in range(20):
            with mjax.named_scope("a"):
                x = jnp.sin(x)
            with mjax.named_scope("b"):
                x = jnp.cos(x)
        return x

    drawing = mjax.debug.draw(f, 1.0, max_nodes=2)
    _, edges = _dot(drawing)
    pairs = {(a.partition("\\n")[0], b.partition("\\n")[0]) for a, b in edges}
    assert pairs == {("x", "a"), ("a", "b"), ("b", "a"), ("b", "result")}
    assert _svg(drawing)[2] == 4


def test_runs_of_lines():
    source = "def f(x):\n" + "".join(f"    x = sin(x){' ' * i}\n" for i in range(40))
    names = {"sin": jnp.sin}
    exec(compile(f"{source}    return x\n", "lines.py", "exec"), names)
    graph = graph_of(mjax.make_jaxpr(names["f"])(1.0), 7)
    scopes = [node for node in graph.nodes if node.kind == "scope"]
    assert [node.label for node in scopes] == [("6 equations",)] * 6 + [("4 equations",)]


def test_texts_are_escaped():
    def f(x):
        with mjax.named_scope('<"&\\>'):
            return jnp.sin(jnp.sin(x))

    drawing = mjax.debug.draw(lambda x: f(x['"<']), {'"<': 1.0}, max_nodes=1)
    groups, _, _ = _svg(drawing)
    assert ("scope", ['<"&\\>', "2 equations"]) in [(k, [t[0], t[-1]]) for k, t in groups]
    assert '"<' in groups[0][1][0] and '\\"<' in drawing.dot


def test_characters_that_files_cannot_hold(tmp_path):
    def f(x):
        with mjax.named_scope("a\n\x01b"):
            return mjax.named_call(lambda x: x + 1, name="\ud800")(x) * 2

    drawing = mjax.debug.draw(f, 1.0, max_nodes=1)
    drawing.save(tmp_path / "a.SVG")
    drawing.save(tmp_path / "a.dot")
    ElementTree.parse(tmp_path / "a.SVG")
    text = (tmp_path / "a.dot").read_text("utf-8")
    assert 'label="a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b' in text


def test_files(tmp_path):
    drawing = mjax.debug.draw(_f, *ARGS)
    for name, text in (("a.svg", drawing.svg), ("a.dot", drawing.dot), ("a.gv", drawing.dot)):
        drawing.save(tmp_path / name)
        assert (tmp_path / name).read_text() == text
    with pytest.raises(ValueError, match=r"has to end with \.svg, \.dot or \.gv"):
        drawing.save(tmp_path / "a.png")
    assert drawing._repr_svg_() == drawing.svg


def test_wrong_arguments():
    with pytest.raises(TypeError, match="a jaxpr takes no arguments"):
        mjax.debug.draw(mjax.make_jaxpr(_f)(*ARGS), 1.0)
    with pytest.raises(ValueError, match="max_nodes must be at least 1, got 0"):
        mjax.debug.draw(_f, *ARGS, max_nodes=0)
    with pytest.raises(TypeError, match="draw"):
        mjax.debug.draw(3)


def test_large_programs_are_small_pictures():
    def f(x):
        for i in range(500):
            with mjax.named_scope(f"block{i % 25}"):
                x = jnp.sin(x) * 2 + jnp.cos(x)
        return x

    jaxpr = mjax.make_jaxpr(f)(1.0)
    drawing = mjax.debug.draw(jaxpr)
    assert len(drawing.svg) < 100_000
    assert len(jaxpr.eqns) == 2000 and len(_dot(drawing)[0]) <= 62


def test_labels_of_edges_are_beside_each_other():
    def f(a, b, c):
        return jnp.where(a > b, jnp.sin(a) * c + b, jnp.cos(b) * a + c)

    small = mjax.debug.draw(lambda x: jnp.sin(x) @ x.T, jnp.ones((3, 4)))
    for drawing in (small, mjax.debug.draw(f, *[jnp.ones((30, 40))] * 3)):
        root = ElementTree.fromstring(drawing.svg)
        boxes = [(float(t.get("x")), float(t.get("y")), 6.1 * len(t.text)) for t in root.findall(
            "{http://www.w3.org/2000/svg}text")]
        for i, (x, y, width) in enumerate(boxes):
            assert x >= width / 2 and x + width / 2 <= float(root.get("width")), drawing.svg
            for u, v, other in boxes[:i]:
                assert abs(y - v) >= 10 or abs(x - u) >= (width + other) / 2, drawing.svg
