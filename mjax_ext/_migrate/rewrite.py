"""Writes a plan into a file with libcst, which keeps all else as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst
from libcst import matchers
from libcst.metadata import MetadataWrapper, PositionProvider

from mjax_ext._migrate.plan import Plan, Problem, Span

_LONG = 100
#: Comments for tools, about their own line.
_DIRECTIVE = re.compile(r"#\s*(noqa|type:|mypy:|pyright:|pylint:|isort:|ruff:|pragma:|fmt:|yapf:)")


def rewrite(source: bytes, plan: Plan) -> bytes:
    """The file with the plan's edits. Uses that it cannot edit are added to the plan's problems.

    Raises:
      SyntaxError: libcst does not know its syntax.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(source))
    except cst.ParserSyntaxError as error:
        msg = f"libcst says: {error.message}"
        raise SyntaxError(msg, ("", error.raw_line, error.raw_column, None)) from None
    writer = _Writer(plan)
    module = wrapper.visit(writer)
    for begin in {*plan.edits, *plan.imports, *plan.modules, *plan.calls} - writer.done:
        plan.problems.append(Problem(begin[0], "this form of an import or a use is not rewritten"))
    return bytes(module.bytes)


class _Writer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.done: set[tuple[int, int] | Span] = set()
        self.gone: list[cst.CSTNode] = []  # statements in the place of those that are dropped

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        """Replaces expressions by their spans."""
        node = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.Attribute | cst.Name | cst.SimpleString):
            span = (*self.begin(original_node), *self.end(original_node))
            text = self.plan.edits.get(span)
            if text is not None and not [*_comments(original_node)]:
                self.done.add(span)
                if isinstance(original_node, cst.SimpleString) and "'" not in text:
                    text = text.replace('"', original_node.quote)
                new = cst.parse_expression(text)
                return new.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
        return node

    def begin(self, node: cst.CSTNode) -> tuple[int, int]:
        place = self.get_metadata(PositionProvider, node).start
        return place.line, place.column

    def end(self, node: cst.CSTNode) -> tuple[int, int]:
        place = self.get_metadata(PositionProvider, node).end
        return place.line, place.column

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Moves arguments."""
        span = (*self.begin(original_node), *self.end(original_node))
        if (names := self.plan.calls.get(span)) is None:
            return updated_node
        self.done.add(span)
        return updated_node.with_changes(args=_moved(updated_node.args, names))

    def leave_ImportFrom(self, original_node: cst.ImportFrom,
                         updated_node: cst.ImportFrom) -> cst.ImportFrom:
        """Replaces the module of a `from` whose names stay."""
        begin = self.begin(original_node)
        if module := self.plan.modules.get(begin):
            self.done.add(begin)
            path = cst.parse_expression(module)
            assert isinstance(path, cst.Attribute | cst.Name)
            return updated_node.with_changes(module=path)
        return updated_node

    def leave_SimpleStatementLine(
            self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine,
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Replaces imports by others, one a line."""
        smalls = self.replaced(original_node, updated_node)
        if smalls is None:
            return updated_node
        if not smalls:
            self.gone.append(updated_node)
            return updated_node
        lines = [cst.SimpleStatementLine([small]) for small in smalls]
        inner = [line for small in original_node.body if small not in smalls
                 for line in _comments(small)]
        leading = [*updated_node.leading_lines, *inner]
        lines[0] = lines[0].with_changes(leading_lines=leading)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(lines)

    def leave_SimpleStatementSuite(
            self, original_node: cst.SimpleStatementSuite,
            updated_node: cst.SimpleStatementSuite) -> cst.SimpleStatementSuite:
        """Replaces imports behind a colon by others."""
        smalls = self.replaced(original_node, updated_node)
        return updated_node if smalls is None else updated_node.with_changes(
            body=smalls or [cst.Pass()])

    def replaced(self, original_node: cst.SimpleStatementLine | cst.SimpleStatementSuite,
                 updated_node: cst.SimpleStatementLine | cst.SimpleStatementSuite,
                 ) -> list[cst.BaseSmallStatement] | None:
        """The statements of a line, if imports among them are replaced."""
        begins = [self.begin(node) for node in original_node.body]
        if not any(begin in self.plan.imports for begin in begins):
            return None
        smalls: list[cst.BaseSmallStatement] = []
        for begin, small in zip(begins, updated_node.body, strict=True):
            if begin in self.plan.imports:
                self.done.add(begin)
                smalls += (_line(text).body[0] for text in self.plan.imports[begin])
            else:
                smalls.append(small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))
        return smalls

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock,
                            updated_node: cst.IndentedBlock) -> cst.IndentedBlock:
        """Drops statements; their comments stay."""
        if not any(node in self.gone for node in updated_node.body):
            return updated_node
        body, carried = self.left(updated_node.body)
        if body and updated_node.body[0] in self.gone:
            lines = [*body[0].leading_lines]
            while lines and lines[0].comment is None:
                del lines[0]
            body[0] = body[0].with_changes(leading_lines=lines)
        return updated_node.with_changes(body=body, footer=[*carried, *updated_node.footer])

    def left(self, body: Sequence[cst.CSTNode]) -> tuple[list[Any], list[cst.EmptyLine]]:
        """A body without the statements that are dropped, and their comments behind the rest."""
        kept: list[Any] = []
        carried: list[cst.EmptyLine] = []
        for node in body:
            if node in self.gone:
                carried += _comments(node)
            else:
                leading = getattr(node, "leading_lines", ())
                kept.append(node.with_changes(leading_lines=[*carried, *leading])
                            if carried else node)
                carried = []
        return kept, carried

    def leave_Try(self, original_node: cst.Try, updated_node: cst.Try,
                  ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """A `try` whose handlers do what its body does is its body."""
        if updated_node.orelse or updated_node.finalbody:
            return updated_node
        before, after = ([node.body, *(handler.body for handler in node.handlers)]
                         for node in (original_node, updated_node))
        return _one_of(updated_node, before, after)

    def leave_If(self, original_node: cst.If, updated_node: cst.If,
                 ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """An `if` whose branches do the same is one of them."""
        if not isinstance(original_node.orelse, cst.Else) or not isinstance(
                updated_node.orelse, cst.Else):
            return updated_node
        return _one_of(updated_node, [original_node.body, original_node.orelse.body],
                       [updated_node.body, updated_node.orelse.body])

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Adds the imports that the edits need, behind the first docstring and futures."""
        code = {line for each in updated_node.body for line in _code(each).splitlines()}
        needed = [_line(text) for text in sorted(self.plan.needed) if text not in code and not any(
            line.startswith(f"{text}.") and " as " not in line for line in code)]
        body, place = [*updated_node.body], 0
        while place < len(body) and _stays_first(body[place]):
            place += 1
        if needed and place < len(body):  # the space above the first import stays there
            first = body[place]
            needed[0] = needed[0].with_changes(leading_lines=getattr(first, "leading_lines", ()))
            bare = first.with_changes(leading_lines=[])
            if first in self.gone:
                self.gone.append(bare)
            body[place] = bare
        rest, carried = self.left(body[place:])
        return updated_node.with_changes(
            body=[*body[:place], *needed, *rest], footer=[*carried, *updated_node.footer])


def _comments(node: cst.CSTNode) -> Iterator[cst.EmptyLine]:
    """The comments in a statement, as lines, but for those that are for tools."""
    for comment in matchers.findall(node, matchers.Comment()):
        if isinstance(comment, cst.Comment) and not _DIRECTIVE.match(comment.value):
            yield cst.EmptyLine(comment=comment)


def _moved(args: Sequence[cst.Arg], names: dict[str, str]) -> list[cst.Arg]:
    """Arguments where they go: first those without a name, by their new places."""
    placed: list[tuple[int, cst.Arg]] = []
    named: list[cst.Arg] = []
    for index, arg in enumerate(args):
        if arg.keyword is not None:
            new = names.get(arg.keyword.value, arg.keyword.value)
            named.append(arg.with_changes(keyword=cst.Name(new)))
        elif (new := names.get(str(index), str(index))).isdigit():
            placed.append((int(new), arg))
        else:
            plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            named.append(arg.with_changes(keyword=cst.Name(new), equal=plain))
    moved = [arg for _, arg in sorted(placed, key=lambda pair: pair[0])] + named
    return [arg.with_changes(comma=slot.comma, whitespace_after_arg=slot.whitespace_after_arg)
            for slot, arg in zip(args, moved, strict=True)]


def _one_of(node: cst.If | cst.Try, before: Sequence[cst.CSTNode], after: Sequence[cst.CSTNode],
            ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
    """The branch in the place of branches that have become equal."""
    block = after[0]
    if len({_code(b).strip() for b in after}) > 1 or len({_code(b).strip() for b in before}) == 1:
        return node
    if not isinstance(block, cst.IndentedBlock) or not block.body:
        return node
    first = block.body[0].with_changes(leading_lines=node.leading_lines)
    return cst.FlattenSentinel([first, *block.body[1:]])


def _line(text: str) -> cst.SimpleStatementLine:
    if len(text) > _LONG and text.startswith("from"):
        head, _, names = text.partition(" import ")
        text = f"{head} import (\n    {names.replace(', ', f',{chr(10)}    ')},\n)"
    line = cst.parse_statement(text)
    assert isinstance(line, cst.SimpleStatementLine)
    return line


def _code(node: cst.CSTNode) -> str:
    return str(cst.Module([]).code_for_node(node))


def _stays_first(node: cst.CSTNode) -> bool:
    """Whether a statement is the docstring or an import of `__future__`."""
    if not isinstance(node, cst.SimpleStatementLine):
        return False
    small = node.body[0]
    if isinstance(small, cst.Expr):
        return isinstance(small.value, cst.SimpleString | cst.ConcatenatedString)
    return (isinstance(small, cst.ImportFrom) and isinstance(small.module, cst.Name)
            and small.module.value == "__future__")
