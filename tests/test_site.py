"""The documentation site: its parts that need no Sphinx."""

from __future__ import annotations

import textwrap
from pathlib import Path

import mjax.numpy as jnp
from docs.site import definitions, docstring, links, reference, signatures
from docs.site.surface import methods, surface

ROOT = Path(__file__).parent.parent


def _no_link(text):
    return None


def _documented(text):
    def f():
        pass

    f.__doc__ = text
    return f


def _home(full):
    module, _, name = full.rpartition(".")
    return next(entry for entry in surface()[module] if entry.name == name)


def test_the_start_page_lists_every_page():
    listed = (ROOT / "docs" / "site" / "index.md").read_text().splitlines()
    assert not {page.stem for page in (ROOT / "docs").glob("*.md")} - set(listed)


def test_each_object_has_one_home():
    names = [entry for entries in surface().values() for entry in entries]
    objects = [id(entry.value) for entry in names if entry.kind in ("function", "class")]
    assert len(objects) == len(set(objects))
    assert "mjax.custom_derivatives.custom_jvp" in _home("mjax.custom_jvp").others


def test_sections_of_docstrings():
    doc = docstring.parse(_documented("""Adds.

        It does.

        Args:
          x: an array
            of any shape.
          y, *z: others.

        Source: a book,
        its second edition.

        Example:
          >>> 1 + 1
          2
        """))
    assert (doc.summary, doc.prose) == ("Adds.", "It does.")
    assert docstring.entries(doc.sections["Args"]) == [
        ("x", "an array\nof any shape."), ("y, *z", "others.")]
    assert doc.sections["Source"] == "a book,\nits second edition."
    assert doc.sections["Example"] == ">>> 1 + 1\n2"


def test_docstrings_as_markdown():
    text = docstring.markdown(_documented("""Gives *args of `f` (doi:10.1000/182); **all** of them.

        Raises:
          ValueError: there are none.
        """), lambda code: "mjax.f" if code == "f" else None)
    assert text == (r"Gives \*args of {py:obj}`f <mjax.f>` ([doi:10.1000/182](https://doi.org/10."
                    "1000/182)); **all** of them.\n\n:raises ValueError: there are none.")


def test_examples_and_lists_as_markdown():
    text = textwrap.dedent("""\
        So:

        >>> f()
        1

        - one
          thing
        - another""")
    assert docstring.blocks(text, _no_link) == (
        "So:\n\n```pycon\n>>> f()\n1\n```\n\n- one thing\n- another")


def test_signatures_have_the_types_of_stubs_and_real_defaults():
    form, = signatures.signatures(_home("mjax.numpy.swapaxes"))
    assert form == "(a: ArrayLike, axis1: int, axis2: int) -> Array"
    assert "axis: int | None=0" in signatures.signatures(_home("mjax.numpy.concatenate"))[0]
    assert signatures.signature(lambda x, *, _hidden=1, mode="a": x) == "(x, *, mode='a')"


def test_sentences_of_constants():
    assert definitions.sentence(_home("mjax.numpy.pi")).startswith("Numbers")
    assert "of the params `axes: tuple[int, ...]" in definitions.sentence(
        _home("mjax.lax.reduce_max_p"))


def test_methods_are_listed_once():
    found = [name for name, _ in methods(type(jnp.ones(2).sharding))]
    assert found and len(found) == len(set(found))


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="b.html#gone">x</a><a href="c.html">x</a>'
        '<a href="https://example.org/x">x</a><a href="https://no host/x">x</a>'
        '<a href="javascript:x()">x</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p><a href="#here">x</a>')
    assert links.dead(tmp_path) == ["a.html: b.html#gone", "a.html: c.html",
                                    "a.html: https://no host/x", "a.html: javascript:x()"]


def test_rows_of_tables_are_lines():
    for names in surface().values():
        table = reference._table(names)
        assert all(line.startswith("|") and line.endswith("|") for line in table.splitlines())
