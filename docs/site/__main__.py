"""Builds the documentation site: `nox -s site` calls `python -m docs.site FOLDER`.

The pages are those of `docs/`, which stay plain Markdown in the repository. This program copies
them into a folder of Sphinx's, with links that lead to pages of the site. It writes the parts that
are made of code and data there: reference, tables, pictures. Then it runs Sphinx with warnings as
errors, and follows each link of the pages it has made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Eight devices for pictures; XLA reads it at the first client.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from docs.site import links, pages, reference
from docs.site.definitions import ROOT


def build(folder: Path) -> list[str]:
    """Builds the site in `folder/html`; returns the links that lead nowhere."""
    source, html, trees = (folder / name for name in ("source", "html", "trees"))
    for path in (source, html, trees):
        shutil.rmtree(path, ignore_errors=True)
    pages.gather(source)
    reference.write(source / "reference", pages.repository())
    subprocess.run([sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet",
                    "-j", "auto", "-c", ROOT / "docs" / "site", "-d", trees, source, html],
                   check=True)
    return links.dead(html)


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    if dead := build(target):
        sys.exit("\n".join(["dead links:", *dead]))
    print(f"the site: {target / 'html' / 'index.html'}")
