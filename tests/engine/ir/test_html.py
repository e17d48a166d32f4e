"""Programs and meshes as HTML: read back by the standard library's parsers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.sharding import AbstractMesh, Mesh
from tests.html import Page


def _program():
    def f(x, y):
        mjax.debug.print("<b>{}</b>", y)
        carry, _ = lax.scan(lambda c, v: (jnp.sin(c * v) + jnp.cos(c) * jnp.tanh(v), None), x, y)
        return lax.cond(carry > 0, jnp.exp, jnp.abs, carry)

    return mjax.make_jaxpr(f)(1.0, jnp.ones(3))


def test_a_program_reads_as_its_text():
    """The text is the printer's, but for the places of nested programs."""
    jaxpr = _program()
    page = Page(jaxpr._repr_html_())
    words, expected = (sorted(re.findall(r"[\w:~\[\].,<>'{}]+", text))
                       for text in (page.text, str(jaxpr)))
    titles = sorted(re.findall(r"[\w\[\]]+: \d+ equations?", page.text))
    assert titles == ["branches[0]: 1 equation", "branches[1]: 1 equation", "jaxpr: 6 equations"]
    binders = [word for word in expected if re.fullmatch(r"\w+:~?\w+\[\d*\]", word)]
    assert binders == [word for word in words if re.fullmatch(r"\w+:~?\w+\[\d*\]", word)]
    assert page.text.count("{ lambda") == str(jaxpr).count("{ lambda") == 4


def test_nested_programs_are_folded():
    page = Page(_program()._repr_html_())
    folds = [attributes for tag, attributes in page.tags if tag == "details"]
    assert ["open" in fold for fold in folds] == [False, True, True]  # six, one and one equations


def test_equations_lead_to_their_lines():
    jaxpr = mjax.make_jaxpr(lambda x: jnp.sin(x))(1.0)
    (link,) = [attributes for tag, attributes in Page(jaxpr._repr_html_()).tags if tag == "a"]
    line = _program.__code__.co_firstlineno
    assert link["href"].startswith("file://") and "/test_html.py#L" in link["href"]
    assert int(link["href"].rpartition("#L")[2]) > line and "test_html.py:" in link["title"]


def test_cells_of_notebooks_are_not_linked():
    names = {"jnp": jnp}
    exec(compile("f = lambda x: jnp.sin(x)", "<cell & 1>", "exec"), names)
    page = Page(mjax.make_jaxpr(names["f"])(1.0)._repr_html_())
    assert "a" not in [tag for tag, _ in page.tags]
    (span,) = [attributes for tag, attributes in page.tags if tag == "span"]
    assert span["title"] == "<cell & 1>:1 (<lambda>)"


def test_texts_are_escaped():
    text = _program()._repr_html_()
    assert "<b>{}" not in text and "&lt;b&gt;{}&lt;/b&gt;" in text


@pytest.mark.parametrize("shape, names", [((8,), ("i",)), ((2, 4), ("i", "j")),
                                          ((2, 2, 2), ("i", "j", "<k>")), ((), ())])
def test_meshes(shape, names):
    mesh = Mesh(np.array(mjax.devices()[: int(np.prod(shape))]).reshape(shape), names)
    page = Page(mesh._repr_html_())
    pictures = page.pictures
    assert len(pictures) == (2 if len(shape) == 3 else 1)
    cells = [text for picture in pictures for text in _texts(picture) if text.isdigit()]
    assert cells == [str(device.id) for device in mesh.devices.flat]
    shown = " ".join(text for picture in pictures for text in _texts(picture))
    assert all(name in shown for name in names)
    assert "<k>" not in mesh._repr_html_()


def test_a_mesh_without_devices():
    page = Page(AbstractMesh((2, 3), ("i", "j"))._repr_html_())
    (picture,) = page.pictures
    assert page.text.startswith("AbstractMesh(i: 2, j: 3)")
    assert len(picture.findall(".//{*}rect")) == 6
    assert Page(AbstractMesh((), ())._repr_html_()).pictures == []
    assert "too many" in Page(AbstractMesh((2048,), ("i",))._repr_html_()).text


def _texts(picture):
    return [element.text or "" for element in picture.iter() if element.tag.endswith("text")]


def test_pictures_are_images_of_their_own():
    (picture,) = Page(AbstractMesh((2,), ("i",))._repr_html_()).pictures
    assert ElementTree.tostring(picture) and float(picture.get("width")) > 0
