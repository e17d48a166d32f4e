"""The behaviour tests of a generation are frozen: they may be added to, and not edited.

`frozen.txt` has the hash of each file. A line is added with a new file, and stays as it is; until
release 1.0 v1 is a candidate, and its lines may follow a correction.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mjax_ext import _manifest

HERE = Path(__file__).parent
FROZEN = dict(line.split()[::-1] for line in (HERE / "frozen.txt").read_text().splitlines())
REMEDY = ("this file says what a generation promised. Write a new test beside it; what it tests "
          "has to stay, by an adapter if the head moves on: docs/design/0017-generations.md.")


def hash_of(text: bytes) -> str:
    return hashlib.sha256(text.replace(b"\r\n", b"\n")).hexdigest()[:32]


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_files_are_not_edited(name):
    assert hash_of((HERE / name).read_bytes()) == FROZEN[name], f"{name}: {REMEDY}"


def test_all_files_of_generations_are_frozen():
    found = {f"{generation}/{path.name}" for generation in _manifest.GENERATIONS
             for path in (HERE / generation).glob("*.py")}
    lines = [f"{hash_of((HERE / name).read_bytes())} {name}" for name in sorted(found - {*FROZEN})]
    assert found == {*FROZEN}, "put these lines into frozen.txt:\n" + "\n".join(lines)


def test_an_edit_is_noticed():
    name, known = next(iter(FROZEN.items()))
    assert hash_of((HERE / name).read_bytes() + b"\n# more\n") != known


def test_frozen_tests_use_public_modules_alone():
    for name in FROZEN:
        imports = [line for line in (HERE / name).read_text().splitlines()
                   if line.lstrip().startswith(("import ", "from "))]
        assert imports and not [line for line in imports if not line.lstrip().startswith((
            "import numpy", "import pytest", "import mjax", "from mjax import lax",
            f"from mjax_ext import {name.partition('/')[0]}", "from __future__",
            f"from mjax_ext.{name.partition('/')[0]}"))], name
