"""The table of jax's names by release: how it is collected and read, and where names go."""

from __future__ import annotations

import re
import textwrap
import zipfile
from pathlib import Path

import pytest

from mjax_ext._audit import collect
from mjax_ext._audit.homes import HOMES, RENAMED, exports_of_face, home, name_of, why_absent
from mjax_ext._audit.jax_names import TABLE, Table, table
from mjax_ext._audit.surface import SURFACE
from tests.ext.test_names import REASONS

ROOT = Path(__file__).parents[3]
#: Release -> the module `jax.core` in it.
SOURCES = {
    "0.4.36": "from jax._src.core import A as A, B as B, C as C\n_hidden = 1\n",
    "0.5.0": """\
        import typing
        import jax._src.core as _src
        from jax._src.core import (
            A as A,
            X as D,
        )
        _deprecations = {
            # Finalize after v0.9.0
            "B": ("jax.core.B is deprecated.", _src.B),
            "C": ("jax.core.C was removed in JAX v0.5.0", None),
            "E": ("jax.core.E is deprecated and will be removed in JAX v0.8.", _src.E),
        }
        if typing.TYPE_CHECKING:
            B = C = _src.B
        else:
            F, (G, *H) = 1, [2, 3]
        try:
            I: int = 1
        except ValueError:
            def J(): pass
        with typing as t:
            class K: pass
        from . import ad
        import numpy as np
        del _src
        """,
    "0.6.0": "from jaxlib.core import *\nA = 1\ndel A\nA = 2\n",
    "0.6.1": "B = 1\nA = 1\n",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for release, source in SOURCES.items():
        with zipfile.ZipFile(folder / f"jax-{release}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("jax/core.py", textwrap.dedent(source))
            wheel.writestr("jax/numpy/core.py", "A = 1")
            wheel.writestr("jax/_src/unlisted.py", "A = 1")
            if release == "0.6.1":
                wheel.writestr("jax/_src/core.py", "import jax\n_hidden = 1\nfrom jax import x")
    patch = pytest.MonkeyPatch()
    patch.setattr(collect, "TABLE", folder / "table.txt")
    assert collect.main([str(folder)]) == 0
    patch.undo()
    return Table((folder / "table.txt").read_text())


def test_names_of_the_small_table(small):
    assert small.releases == [*SOURCES]
    module = small.module("jax.core")
    assert module.spans == (("0.4.36", ""),)
    assert module.names == {
        "A": (("0.4.36", ""),), "B": (("0.4.36", "0.5.0"), ("0.6.1", "")),
        "C": (("0.4.36", "0.4.36"),), "*": (("0.6.0", "0.6.0"),),
        **dict.fromkeys("DEFGHIJK", (("0.5.0", "0.5.0"),)), "ad": (("0.5.0", "0.5.0"),)}
    assert module.deprecated == {"B": ("0.5.0", "0.9.0"), "E": ("0.5.0", "0.8")}


def test_modules_of_the_small_table(small):
    assert small.module("jax.numpy.core") is None
    assert small.module("jax._src.unlisted").names == {}
    assert small.module("jax._src.core").names == dict.fromkeys(
        ["_hidden", "x"], (("0.6.1", ""),))
    assert small.find("jax.core.A.b") == (small.module("jax.core"), "A.b")
    assert small.find("jax.numpy.core.A") == (None, "jax.numpy.core.A")


def test_releases(small):
    assert small.after("0.4.36") == "0.5.0" and small.after("0.6.1") == ""
    assert small.newer("0.10") and not small.newer("0.6.1") and not small.newer("0.5")


def test_the_table_is_small_and_has_the_window():
    assert TABLE.stat().st_size < 300_000
    assert table().releases[0] == "0.4.36" and len(table().releases) > 25


#: Names, and the releases of jax that have them, as the wheels were read by people.
KNOWN = {
    "jax.interpreters.batching.not_mapped": (("0.4.36", "0.10.1"),),
    "jax.extend.core.CallPrimitive": (("0.10.0", "0.11.0"),),
    "jax.extend.core.primitives.jit_p": (("0.7.0", ""),),
    "jax.core.Primitive": (("0.4.36", "0.5.3"),),
    "jax.core.get_aval": (("0.4.36", "0.9.2"),),
    "jax.interpreters.xla.pytype_aval_mappings": (("0.4.36", "0.6.2"),),
    "jax._src.pjit.pjit_p": (("0.4.36", "0.6.2"),),
    "jax._src.lax.lax._extract_tracers_dyn_shape": (("0.4.36", "0.8.1"),),
    "jax._src.literals.LiteralArray": (("0.7.2", "0.7.2"),),
}


@pytest.mark.parametrize("path", KNOWN)
def test_known_names(path):
    module, name = table().find(path)
    assert module.names[name] == KNOWN[path]


# ---- homes -----------------------------------------------------------------------------


def test_homes_are_there():
    for module, homes in HOMES.items():
        for each in homes:
            if each.startswith("mjax"):
                assert exports_of_face(each), (module, each)
            else:
                assert (SURFACE.is_module("v1", each)
                        or SURFACE.rows("v1")[each].kind == "module"), (module, each)


def test_renamed_names_are_there_and_were_in_jax():
    for path, new in RENAMED.items():
        module, name = table().find(path)
        assert name in module.names, path
        assert (name_of(new) in exports_of_face(new.rpartition(".")[0])
                if new.startswith("mjax.") else new in SURFACE.rows("v1")), path


def test_reasons_are_those_of_the_page():
    assert len(REASONS) > 100
    for (part, name), reason in REASONS.items():
        assert why_absent(f"jax.{part}", name) == reason.replace("`", "")


#: Modules that public modules import, in release 0.10.2; mjax does not have Pallas.
IMPORTS = ["jax.extend.sharding.xla_client", "jax.interpreters.traceback_util"]


def test_each_public_name_has_a_home_or_a_reason():
    """Names of jax 0.10.2 that it does not deprecate."""
    place = table().releases.index
    here = place("0.10.2")
    lacking = []
    for path in re.findall(r"^\[(jax\.(?:core|extend|ffi|interpreters)[\w.]*)\]",
                           TABLE.read_text(), re.MULTILINE):
        module = table().module(path)
        for name, spans in module.names.items():
            there = any(place(first) <= here and (not last or here <= place(last))
                        for first, last in spans)
            known = (module.deprecated.get(name) or table().module(f"{path}.{name}")
                     or home(path, name, SURFACE, "v1") or home(path, name, SURFACE, None)
                     or (path.rpartition(".")[2], name) in REASONS)
            if there and name != "*" and not known:
                lacking.append(f"{path}.{name}")
    assert [path for path in lacking if path not in IMPORTS and ".pallas." not in path] == []
