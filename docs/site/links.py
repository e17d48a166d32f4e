"""Follows the links of a built site: files and anchors inside, the form of those to elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if found := values.get("id"):
            self.ids.add(found)
        if tag == "a" and (found := values.get("name")):
            self.ids.add(found)
        for key in ("href", "src"):
            if found := values.get(key):
                self.links.append(found)


def dead(folder: Path) -> list[str]:
    """The links of the pages of a folder that lead nowhere, each as `page: link`."""
    pages = {}
    for file in sorted(folder.rglob("*.html")):
        pages[file] = _Page()
        pages[file].feed(file.read_text(encoding="utf-8"))
    return [f"{file.relative_to(folder)}: {link}" for file, page in pages.items()
            for link in dict.fromkeys(_wrong(file, page, pages))]


def _wrong(file: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme == "data":
            continue
        if parts.scheme or parts.netloc:
            if not is_address(link):
                yield link
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            yield link
        elif parts.fragment and target in pages:
            # Sphinx's search page and theme toggles use an empty or script-made fragment.
            if unquote(parts.fragment) not in pages[target].ids:
                yield link


def is_address(link: str) -> bool:
    """Whether an external link has the form of one: a scheme that is safe and a host's name."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return bool(re.fullmatch(r"[^@\s]+@[\w.-]+\.\w+", parts.path))
    return (parts.scheme in ("http", "https", "") and " " not in link
            and bool(re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc)))
