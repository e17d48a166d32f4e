"""Files about the package agree with the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import mjax

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
#: Files that may refer to the home of the project.
TEXTS = ("*.*", ".github/**/*", *(f"{folder}/**/*.{kind}" for folder in (
    "benchmarks", "docs", "examples", "mjax", "mjax_ext", "mjaxlib_shim", "tests")
    for kind in ("cff", "css", "html", "ini", "js", "md", "py", "pyi", "toml", "txt", "yml")))
URLS = PROJECT["project"]["urls"]


def _citation(key):
    (line,) = re.findall(rf"^{key}: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    return line.strip('"')


def test_versions_agree():
    assert PROJECT["project"]["version"] == mjax.__version__ == _citation("version")


def test_the_release_is_dated():
    page = (ROOT / "CHANGELOG.md").read_text()
    ((version, date),) = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", page,
                                    re.MULTILINE)[:1]
    assert (version, date) == (mjax.__version__, _citation("date-released"))


def test_links_have_one_home():
    source = URLS["Source"]
    assert all(url.startswith(source) for url in URLS.values())
    assert _citation("repository-code") == source
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    (rule,) = hook["substitutions"]
    assert rule["replacement"].startswith(f"]({source}/blob/v$HFPR_VERSION/")
    blob = f"{source}/blob/v{mjax.__version__}/"
    for url in URLS.values():
        assert not url.startswith(blob) or (ROOT / url.removeprefix(blob)).exists()


def test_the_address_stands_in_one_place():
    """To move the project, change `Source`, and what this test and the one above then name."""
    source = URLS["Source"]
    host = source.split("/")[2]
    anywhere = re.compile(rf"\b{re.escape(host)}(?!\w)")  # not `mjax.example_libraries`
    found = {}
    for path in (path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()):
        if lines := [line for line in path.read_text(errors="replace").splitlines()
                    if anywhere.search(line)]:
            found[path.relative_to(ROOT).as_posix()] = lines
    assert set(found) <= {"pyproject.toml", "CITATION.cff"}, found
    for line in (line for lines in found.values() for line in lines):
        assert re.search(rf"{re.escape(source)}[/\"]", line), line


def test_links_of_the_page_lead_to_files():
    (rule,) = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    page = (ROOT / "README.md").read_text()
    local = re.findall(rule["pattern"], page)
    assert len(local) > 10
    for path in local:
        assert (ROOT / path).exists(), path
    page = re.sub(rule["pattern"], rule["replacement"], page)
    assert not re.findall(r"\]\((?!https?:)", page)


def test_classifiers_name_the_pythons_of_the_matrix():
    pythons = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"]
               if re.search(r":: 3\.\d+$", c)]
    assert pythons[0] == PROJECT["project"]["requires-python"].removeprefix(">=")
