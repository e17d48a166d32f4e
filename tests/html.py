"""Reads HTML back: tags with their attributes, the text, and the pictures as trees of XML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

_EMPTY = {"br", "hr", "img", "meta"}


class Page(HTMLParser):
    """A piece of HTML, each of whose tags has to be closed in its place."""

    def __init__(self, source: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open, f"not closed: {self._open}"
        self.pictures = [ElementTree.fromstring(text)
                         for text in re.findall(r"<svg.*?</svg>", source, re.DOTALL)]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        self.text += data
