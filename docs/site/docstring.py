"""Docstrings in sections, as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Sections of docstrings -> the field that shows them; None: a paragraph of its own.
SECTIONS = {
    "Args": "param", "Attributes": "ivar", "Returns": "returns", "Yields": "Yields",
    "Raises": "raises", "Warns": "Warns", "Source": "Source", "Example": None, "Examples": None,
}
_HEADER = re.compile(rf"^({'|'.join(SECTIONS)}):(?: (.*))?$")
_ENTRY = re.compile(r"^(\*{0,2}`?\w[\w.,* `\[\]]*?):(?: (.*))?$")
_LINK = re.compile(r"(doi:10\.[^\s,;)]+[^\s,;).]|arXiv:\d+\.\d+|https?://[^\s)>,]+[^\s)>,.])")


@dataclass
class Docstring:
    """A docstring: its first paragraph, the others, and its sections as dedented text."""

    summary: str = ""
    prose: str = ""
    sections: dict[str, str] = field(default_factory=dict)


def parse(value: Any) -> Docstring:
    """The docstring of an object, in parts."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in (inspect.getdoc(value) or "").splitlines():
        match = _HEADER.match(line)
        if match:
            parts.append((match[1], [match[2]] if match[2] else []))
        elif parts[-1][0] and line[:1].strip() and parts[-1][1][-1:] != [""]:
            parts[-1][1].append(line)  # `Source:` goes on at the margin
        elif parts[-1][0] and line[:1].strip():
            parts.append(("", [line]))
        else:
            parts[-1][1].append(line)
    sections: dict[str, str] = {}
    prose = []
    for name, lines in parts:
        text = textwrap.dedent("\n".join(lines)).strip()
        if name:
            sections[name] = "\n\n".join(filter(None, (sections.get(name), text)))
        elif text:
            prose.append(text)
    summary, _, rest = "\n\n".join(prose).partition("\n\n")
    return Docstring(summary, rest, sections)


def entries(text: str) -> list[tuple[str, str]]:
    """The entries `name: text` of a section."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        match = _ENTRY.match(line)
        if match:
            found.append((match[1].replace("`", ""), match[2] or ""))
        elif found:
            found[-1] = found[-1][0], f"{found[-1][1]}\n{line}"
        else:
            found.append(("", line))
    return [(name, _dedented(text)) for name, text in found]


def _dedented(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


# ------------------------------------------------------------------------------------ Markdown


def inline(text: str, link: Callable[[str], str | None]) -> str:
    """Prose as Markdown: code stays code, names become links, all else is text."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(_code(part[1:-1], link) if i % 2 else _escaped(part)
                   for i, part in enumerate(parts))


def _code(text: str, link: Callable[[str], str | None]) -> str:
    target = link(text)
    text = " ".join(text.split())
    return f"{{py:obj}}`{text} <{target}>`" if target else f"`{text}`"


def _escaped(text: str) -> str:
    parts = _LINK.split(text)
    text = "".join(_address(part) if i % 2 else re.sub(r"([\\*_\[\]<>|$~^#])", r"\\\1", part)
                   for i, part in enumerate(parts))
    return re.sub(r"\\\*\\\*(?=\w)([^*\n]+?)\\\*\\\*", r"**\1**", text)


def _address(text: str) -> str:
    if text.startswith("doi:"):
        return f"[{text}](https://doi.org/{text[4:]})"
    if text.startswith("arXiv:"):
        return f"[{text}](https://arxiv.org/abs/{text[6:]})"
    return f"<{text}>"


def blocks(text: str, link: Callable[[str], str | None]) -> str:
    """Paragraphs, lists, indented blocks and examples as Markdown."""
    out = []
    for block in re.split(r"\n{2,}", text):
        lines = block.splitlines()
        start = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>> ")), None)
        if start is not None:
            if start:
                out.append(_paragraph(lines[:start], link))
            out.append(f"```pycon\n{textwrap.dedent(chr(10).join(lines[start:]))}\n```")
        elif all(line[:1] == " " for line in lines):
            out.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            out.append(_paragraph(lines, link))
    return "\n\n".join(out)


def _paragraph(lines: list[str], link: Callable[[str], str | None]) -> str:
    if lines[0].startswith(("- ", "* ")):
        items = re.split(r"^[-*] ", "\n".join(lines), flags=re.MULTILINE)[1:]
        return "\n".join("- " + inline(" ".join(item.split()), link) for item in items)
    text = inline("\n".join(line.strip() for line in lines), link)
    # A line does not begin with a mark of a list, a quotation or a field.
    return re.sub(r"^(?=[-+:=]|\d+[.)] )", r"\\", text, flags=re.MULTILINE)


def markdown(value: Any, link: Callable[[str], str | None]) -> str:
    """The docstring of an object as Markdown: prose, fields, the example."""
    doc = parse(value)
    out = [blocks(text, link) for text in (doc.summary, doc.prose) if text]
    fields = [line for name, text in doc.sections.items() if SECTIONS[name]
              for line in _fields(name, text, link)]
    if fields:
        out.append("\n".join(fields))
    out += [blocks(doc.sections[name], link) for name in ("Example", "Examples")
            if name in doc.sections]
    return "\n\n".join(out)


def _fields(section: str, text: str, link: Callable[[str], str | None]) -> list[str]:
    kind = SECTIONS[section]
    if section in ("Args", "Attributes", "Raises"):
        named = entries(text)
        if all(name for name, _ in named):
            return [_field(f"{kind} {name}".replace("*", r"\*"), text, link)
                    for name, text in named]
    if section == "Warns":
        text = "\n\n".join(f"`{name}`: {text}" if name else text for name, text in entries(text))
    return [_field(str(kind if section != "Raises" else "Raises"), text, link)]


def _field(name: str, text: str, link: Callable[[str], str | None]) -> str:
    body = blocks(text, link)
    return f":{name}: " + textwrap.indent(body, "    ").strip()
