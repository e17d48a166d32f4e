"""The picture of examples/digits.py, without the training: what it shows can be read back."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PICTURE = runpy.run_path(str(EXAMPLES / "digits_picture.py"))
SPACE = "{http://www.w3.org/2000/svg}"


def _misread(count):
    images = np.random.default_rng(0).random((count, 8, 8)).astype(np.float32)
    return images, np.arange(count) % 10, (np.arange(count) + 1) % 10


@pytest.mark.parametrize("losses, count", [([2.0, 0.5, 0.02], 10), ([0.3], 0), ([1.0, 1.0], 1)])
def test_the_image(losses, count):
    images, labels, guesses = _misread(count)
    root = ElementTree.fromstring(PICTURE["svg"](losses, images, labels, guesses))
    (curve,) = root.findall(f"{SPACE}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in curve.get("points").split()]
    assert len(points) == len(losses)
    for (_, y), (_, after), loss, later in zip(points, points[1:], losses, losses[1:]):
        assert (after > y) == (later < loss)  # down the page
    texts = [t.text for t in root.findall(f"{SPACE}text")]
    assert f"{count} misread digits of the test set (digit → guess)" in texts
    assert [t for t in texts if re.fullmatch(r"\d → \d", t)] == [
        f"{a} → {b}" for a, b in zip(labels, guesses)]
    pixels = [r.get("fill") for r in root.findall(f"{SPACE}rect") if r.get("width") == "9"]
    shades = [int(fill.removeprefix("rgb(").partition(",")[0]) for fill in pixels]
    np.testing.assert_allclose(shades, 255 * (1 - images.ravel()), atol=0.51)
    width, height = float(root.get("width")), float(root.get("height"))
    for r in root.findall(f"{SPACE}rect")[1:]:
        assert float(r.get("x")) + float(r.get("width")) <= width
        assert float(r.get("y")) + float(r.get("height")) <= height


@pytest.mark.parametrize("colour", [False, True])
def test_the_text(colour):
    images, labels, guesses = _misread(10)
    lines = PICTURE["text"]([2.0, 0.5, 0.02], images, labels, guesses, colour).splitlines()
    assert lines[0] == "loss 2.000 █▆▁ 0.0200"
    assert len(lines) == 1 + 2 * (2 + 4)  # eight digits, and two
    assert lines[2].split("  ")[0].strip() == "0 → 1" and ("\x1b[" in lines[3]) == colour
    if not colour:
        dark = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
        rows = np.array([[dark[c] for c in line[:8]] for line in lines[3:7]])
        np.testing.assert_array_equal(rows.transpose(0, 2, 1).reshape(8, 8), images[0] > 0.5)
