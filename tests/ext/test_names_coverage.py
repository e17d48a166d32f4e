"""Uses of JAX's extension surface by public libraries: the share that mjax has by the same name.

`docs/extension_names.md` shows the counts; `python -m tests.ext.test_names_coverage` writes them.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.ext.test_names import ASKED, PRIVATE, groups, is_here

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "extension_names.md"
START, END = "<!-- coverage -->\n", "<!-- end of coverage -->\n"
#: Names that need TensorFlow.
OUT_OF_SCOPE = ("jax.experimental.jax2tf",)
#: The least share of uses. It only grows.
LEAST = {"all": 0.957, "public": 0.970, "in scope": 0.979}


def uses():
    """(area, name, number of libraries) of all names but those of private modules."""
    return [(area, name.partition(":")[0], int(name.partition(":")[2]))
            for area, names in groups("downstream_names.txt").items() if area in ASKED
            for name in names]


def is_out_of_scope(area, name):
    return any(area == home or f"{area}.{name}" == home for home in OUT_OF_SCOPE)


def is_private(area, name):
    return name.startswith("_") or bool(PRIVATE.match(area))


def count(found):
    return sum(n for *_, n in found), sum(n for area, name, n in found if is_here(area, name))


def shares():
    """Title -> uses and covered uses."""
    everything = uses()
    public = [use for use in everything if not is_private(*use[:2])]
    return {"all": count(everything), "public": count(public),
            "in scope": count([use for use in public if not is_out_of_scope(*use[:2])])}


def table():
    titles = {
        "all": "all", "public": "without names that begin with an underscore",
        "in scope": "and without `jax2tf`, which is out of scope"}
    lines = ["| area | uses | covered |", "|---|---|---|"]
    for area in dict.fromkeys(area for area, *_ in uses()):
        total, covered = count([use for use in uses() if use[0] == area])
        lines.append(f"| `{area}` | {total} | {covered} |")
    for key, (total, covered) in shares().items():
        lines.append(f"| {titles[key]} | {total} | {covered}, {covered / total:.1%} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", LEAST)
def test_the_share_does_not_shrink(kind):
    total, covered = shares()[kind]
    assert covered / total >= LEAST[kind]


def test_the_page_shows_the_counts():
    assert PAGE.read_text().partition(START)[2].partition(END)[0] == table()


def test_no_area_is_left_out_but_private_ones():
    lacking = set(groups("downstream_names.txt")) - set(ASKED)
    assert lacking and all(PRIVATE.match(area) for area in lacking)


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2])
