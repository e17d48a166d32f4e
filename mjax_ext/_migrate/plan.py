"""The edits of a file: expressions and imports to replace, and what stands in the way.

The plan is made from the syntax tree. A use is left as it is if the module that its name begins
with goes where the use goes; else its expression is replaced. Imports follow.
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterator
from typing import Any, NamedTuple

from mjax_ext._audit.findings import Finding, find, star_exports
from mjax_ext._audit.uses import Seen, Use, parsed, walk
from mjax_ext._migrate.targets import Target, Targets

#: Line and column where a node begins and ends.
Span = tuple[int, int, int, int]
_WHY = {
    "star": "imports all names of {}", "text": "imports {} by a text",
    "set": "sets a name of {}", "computed": "computes a name of {}"}


class Problem(NamedTuple):
    """A change that is left to a person."""

    line: int
    why: str


class Plan:
    """The edits of a file.

    Attributes:
      edits: span -> the new text of an expression.
      imports: the begin of an import -> the statements in its place.
      modules: the begin of a `from` -> its new module; the names stay.
      calls: span -> where the arguments of a call go, by place or name.
      needed: imports to add, at the top.
      problems: what cannot be written.
    """

    def __init__(self) -> None:
        self.edits: dict[Span, str] = {}
        self.imports: dict[tuple[int, int], list[str]] = {}
        self.modules: dict[tuple[int, int], str] = {}
        self.calls: dict[Span, dict[str, str]] = {}
        self.needed: set[str] = set()
        self.problems: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self.edits or self.imports or self.modules or self.calls)


def plan_unused(before: bytes, after: bytes) -> Plan:
    """The plan that takes `import jax` out of new code, if only what was rewritten used it."""
    old, new = (ast.parse(source) for source in (before, after))
    plan, lines = Plan(), _lines(after)
    if _reads_jax(old) and not _reads_jax(new):
        for node in ast.walk(new):
            if isinstance(node, ast.Import) and any(_is_jax(alias) for alias in node.names):
                plan.imports[_span(lines, node)[:2]] = [
                    _statement(node, alias) for alias in node.names if not _is_jax(alias)]
    return plan


def _is_jax(alias: ast.alias) -> bool:
    return alias.name == "jax" and alias.asname is None


def _reads_jax(tree: ast.Module) -> bool:
    nodes = [*ast.walk(tree)]
    return any(isinstance(node, ast.Name) and node.id == "jax" for node in nodes) or (
        "jax" in _named_by_texts(nodes))


def _named_by_texts(nodes: list[ast.AST]) -> set[str]:
    """Names that annotations read which are texts, and texts that are names, as in `__all__`."""
    found = {node.value for node in nodes
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in nodes:
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for part in ast.walk(annotation) if annotation else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found |= _names_in(part.value)
    return found


def _names_in(text: str) -> set[str]:
    try:
        read = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return set()
    return {node.id for node in ast.walk(read) if isinstance(node, ast.Name)}


def make_plan(source: bytes, targets: Targets, keep_imports: bool = False) -> Plan:
    """The plan for a file.

    Args:
      source: its bytes.
      targets: where uses go.
      keep_imports: whether the imports of what uses go from stay.

    Raises:
      SyntaxError: it does not parse.
    """
    tree = parsed(source)
    exports = functools.partial(star_exports, surface=targets.surface)
    planner = _Planner(tree, source, targets, keep_imports)
    for seen in walk(tree, source, exports):
        finding = find(Use(seen.path.name, getattr(seen.node, "lineno", 0), ""), "",
                       targets.surface)
        if finding and targets.touches(finding):
            planner.add(seen, finding)
    planner.write_imports()
    planner.write_needed()
    planner.write_texts()
    return planner.plan


def _lines(source: bytes) -> list[bytes]:
    """The lines of a file in UTF-8, in which the syntax tree counts columns."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding).encode().splitlines(keepends=True)


def _span(lines: list[bytes], node: Any) -> Span:
    """Where a node is, in characters."""
    begin, end = (len(lines[line - 1][:column].decode()) for line, column in (
        (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)))
    return node.lineno, begin, node.end_lineno, end


class _Alias(NamedTuple):
    """An alias of an import, and where it goes."""

    node: ast.alias
    name: str
    target: Target
    is_module: bool


class _Planner:
    def __init__(self, tree: ast.Module, source: bytes, targets: Targets, keep: bool) -> None:
        self.plan, self.targets, self.keep = Plan(), targets, keep
        self.lines = _lines(source)
        nodes = [*ast.walk(tree)]
        self.owners = {alias: node for node in nodes
                       if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
        self.calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
        self.names = [node for node in nodes if isinstance(node, ast.Name)]
        self.identifiers = {*_identifiers(nodes)}
        self.named_by_texts = _named_by_texts(nodes)
        self.aliases: dict[ast.alias, _Alias] = {}
        self.kept: set[tuple[str, str]] = set()
        self.moved: set[tuple[str, str]] = set()
        self.moved_roots: set[ast.expr] = set()
        self.wanted: dict[str, set[str]] = {}
        self.top = {*tree.body}
        self.declared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal)
                         for name in node.names}
        self.texts: dict[ast.Constant, list[tuple[Any, str]]] = {}

    def problem(self, node: ast.AST, why: str) -> None:
        self.plan.problems.append(Problem(getattr(node, "lineno", 1), why))

    def add(self, seen: Seen, finding: Finding) -> None:
        """Plans one use."""
        target = self.targets.of(finding)
        if seen.form in _WHY:
            self.problem(seen.node, _WHY[seen.form].format(finding.name.removesuffix(".*")))
        elif isinstance(seen.node, ast.alias):
            self.add_alias(seen.node, seen.path.name, target)
        elif not target.path:
            self.problem(seen.node, target.why)
        elif seen.form == "require":
            self.require(seen.node, target.path)
        elif seen.form == "getattr" and isinstance(seen.node, ast.Call):
            self.ask(seen.node, seen.path.name, finding.name, target)
        else:
            self.chain(seen.node, seen.path.name, finding.name, target)

    # ---- expressions -------------------------------------------------------------------

    def chain(self, node: ast.AST, path: str, name: str, target: Target) -> None:
        """A name, or a chain of attributes that begins with one."""
        for _ in range(path.count(".") - name.count(".")):
            node = node.value if isinstance(node, ast.Attribute) else node
        root, depth = node, 0
        while isinstance(root, ast.Attribute):
            root, depth = root.value, depth + 1
        if target.arguments:
            self.arguments(node, target.arguments)
        if isinstance(root, ast.Call):
            self.called_root(root, name, depth, target)
            return
        if not isinstance(root, ast.Name):
            self.problem(node, f"reads {name} from an expression that is not a name")
            return
        parts = name.split(".")
        begin, rest = ".".join(parts[:len(parts) - depth]), parts[len(parts) - depth:]
        there = self.targets.module(begin)
        if there and ".".join([there, *rest]) == target.path:
            self.kept.add((root.id, begin))
        elif depth or self.is_module(begin):
            self.moved.add((root.id, begin))
            self.moved_roots.add(root)
            self.edit(node, self.expression(node, root.id, begin, target.path))

    def called_root(self, root: ast.Call, name: str, depth: int, target: Target) -> None:
        """`require("v1").core.Primitive`."""
        begin = name.split(".")[:-depth] if depth else name.split(".")
        there = self.targets.module(".".join(begin))
        rest = name.split(".")[len(begin):]
        required = getattr(root.func, "attr", getattr(root.func, "id", "")) == "require"
        if required and ".".join([there, *rest]) == target.path:
            self.require(root, there)
        else:
            self.problem(root, f"reads {name} from what a call gives")

    def require(self, node: ast.AST, path: str) -> None:
        if isinstance(node, ast.Call):
            self.edit(node.args[0], f'"{path.rpartition(".")[2]}"')

    def ask(self, node: ast.Call, path: str, name: str, target: Target) -> None:
        """`getattr` and `hasattr` with a literal name."""
        whole, _, last = path.rpartition(".")
        if path != name:  # an attribute of the name
            self.chain(node.args[0], whole, name, target)
            return
        module, _, new = target.path.rpartition(".")
        self.chain(node.args[0], whole, whole, Target(module))
        if new != last:
            self.edit(node.args[1], f'"{new}"')

    def arguments(self, node: ast.AST, names: dict[str, str]) -> None:
        """Moves the arguments of a call; without a call nobody knows them."""
        call = self.calls.get(node)  # type: ignore[call-overload]
        if call is not None and _can_move(call, names):
            self.plan.calls[_span(self.lines, call)] = names
        else:
            self.problem(node, "its arguments are others now, and this use does not show them all")

    def is_module(self, path: str) -> bool:
        return bool(self.targets.module(path))

    def expression(self, node: ast.AST, root: str, begin: str, path: str) -> str:
        """A path as an expression in the place of one that begins with `root`, and its import."""
        package, _, rest = path.partition(".")
        generation = rest.split(".", 1)[0]
        if package == "mjax_ext" and begin != "mjax_ext" and self.is_free(generation, path):
            self.wanted.setdefault(f"from mjax_ext import {generation}", set()).add(root)
            return rest
        if package in self.identifiers and not self.imported(package):
            self.problem(node, f"{package} is a name of this file's own")
        needed = f"import mjax_ext.{generation}" if package == "mjax_ext" else f"import {package}"
        self.wanted.setdefault(needed, set()).add(root)
        return path

    def is_free(self, generation: str, path: str) -> bool:
        """Whether the name of a generation is free, or is the generation."""
        return generation not in self.identifiers or any(
            (alias.asname or alias.name) == generation and isinstance(owner, ast.ImportFrom)
            and owner.module == "mjax_ext" for alias, owner in self.owners.items())

    def imported(self, package: str) -> bool:
        return any(isinstance(owner, ast.Import) and not alias.asname
                   and alias.name.split(".", 1)[0] == package
                   for alias, owner in self.owners.items())

    def edit(self, node: ast.AST, text: str) -> None:
        if (annotation := getattr(node, "in_text", None)) is not None:
            self.texts.setdefault(annotation, []).append((node, text))
        else:
            self.plan.edits[_span(self.lines, node)] = text

    def write_texts(self) -> None:
        """Plans the annotations that are texts."""
        for annotation, edits in self.texts.items():
            new = str(annotation.value).encode()
            for node, text in sorted(edits, key=lambda edit: -edit[0].col_offset):
                new = new[:node.col_offset] + text.encode() + new[node.end_col_offset:]
            if {"\n", '"', "\\"} & {*new.decode()}:
                self.problem(annotation, "the annotation is a text that is not simple")
            self.plan.edits[_span(self.lines, annotation)] = f'"{new.decode()}"'

    # ---- imports -----------------------------------------------------------------------

    def add_alias(self, alias: ast.alias, name: str, target: Target) -> None:
        there = self.targets.module(name)
        is_module = there == target.path or isinstance(self.owners[alias], ast.Import)
        self.aliases[alias] = _Alias(alias, name, target, is_module)

    def write_imports(self) -> None:
        """Plans all imports, when it is known which of them are still needed."""
        owners = dict.fromkeys(self.owners[alias] for alias in self.aliases)
        for owner in owners:
            begin = _span(self.lines, owner)[:2]
            if isinstance(owner, ast.ImportFrom) and not self.keep and (
                    module := self.same_names(owner)):
                if module != owner.module:
                    self.plan.modules[begin] = module
                continue
            statements: list[str] = []
            for alias in owner.names:
                old = _statement(owner, alias)
                if alias not in self.aliases:
                    statements.append(old)
                else:
                    statements += [old] * self.keep
                    statements += self.statements(owner, self.aliases[alias])
            statements = _merged(statements)
            if statements != _merged([_statement(owner, alias) for alias in owner.names]):
                self.plan.imports[begin] = statements

    def write_needed(self) -> None:
        """Plans the imports that the new expressions need.

        They stand beside those of the old ones if these are all in functions or under a guard, so
        that they are as late, and as optional. Else they stand at the top.
        """
        for text, roots in self.wanted.items():
            binding = dict.fromkeys(owner for alias, owner in self.owners.items() if (
                alias.asname or alias.name.split(".", 1)[0]) in roots)
            if not binding or self.top & binding.keys() or self.declared & roots or any(
                    _statement(owner, alias) == text for alias, owner in self.owners.items()
                    if owner in self.top):
                self.plan.needed.add(text)
                continue
            for owner in binding:
                begin = _span(self.lines, owner)[:2]
                old = [_statement(owner, alias) for alias in owner.names]
                self.plan.imports[begin] = _merged([*self.plan.imports.get(begin, old), text])

    def same_names(self, owner: ast.ImportFrom) -> str:
        """The new module of a `from`, if all its names stay what they are; else nothing."""
        modules = set()
        for node in owner.names:
            alias = self.aliases.get(node)
            if alias is None or not alias.target.path or not self.is_needed(alias):
                return ""
            module, _, name = alias.target.path.rpartition(".")
            if name != node.name:
                return ""
            modules.add(module)
        return modules.pop() if len(modules) == 1 else ""

    def is_needed(self, alias: _Alias) -> bool:
        """Whether an import is still needed: not if all uses of its module go elsewhere."""
        if not alias.is_module:
            return True
        key = alias.node.asname or alias.name.rpartition(".")[2], alias.name
        return key in self.kept or key not in self.moved

    def statements(self, owner: ast.stmt, alias: _Alias) -> Iterator[str]:
        """The imports in the place of one alias."""
        node, path = alias.node, alias.target.path
        if isinstance(owner, ast.Import) and not node.asname:
            top = node.name.split(".", 1)[0]
            if path and top == path.split(".", 1)[0]:
                yield f"import {path}"
            elif self.is_used(top) and not self.is_bound(top):
                yield f"import {top}"
            return
        if not self.is_needed(alias):
            return
        if not path:
            self.problem(node, alias.target.why)
            return
        bound = node.asname or node.name
        module, _, name = path.rpartition(".")
        if not module or isinstance(owner, ast.Import):
            yield f"import {path} as {bound}"
        else:
            yield f"from {module} import {name}{f' as {bound}' if bound != name else ''}"

    def is_used(self, name: str) -> bool:
        return name in self.named_by_texts or any(
            node.id == name and node not in self.moved_roots for node in self.names)

    def is_bound(self, top: str) -> bool:
        """Whether another import binds a package."""
        return any(isinstance(owner, ast.Import) and not alias.asname
                   and alias.name.split(".", 1)[0] == top and alias not in self.aliases
                   for alias, owner in self.owners.items())


def _can_move(call: ast.Call, names: dict[str, str]) -> bool:
    """Whether all arguments are shown, and those that stay without a name leave no gap."""
    places = [str(i) for i in range(len(call.args))]
    if (any(keyword.arg is None for keyword in call.keywords)
            or any(isinstance(arg, ast.Starred) for arg in call.args)
            or any(names.get(str(keyword.arg), "").isdigit() for keyword in call.keywords)):
        return False
    if not any(name.isdigit() for name in names):
        return True
    new = sorted(int(names[place]) for place in places
                 if place in names and names[place].isdigit())
    return all(place in names for place in places) and new == [*range(len(new))]


def _statement(owner: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    renamed = f" as {alias.asname}" if alias.asname else ""
    if isinstance(owner, ast.Import):
        return f"import {alias.name}{renamed}"
    return f"from {'.' * owner.level}{owner.module or ''} import {alias.name}{renamed}"


def _merged(statements: list[str]) -> list[str]:
    """Imports with those of one module in one statement."""
    found: dict[str, dict[str, None]] = {}
    for statement in statements:
        head, _, names = statement.partition(" import ")
        found.setdefault(head, {})[names] = None
    return [f"{head} import {', '.join(names)}" if head.startswith("from") else head
            for head, names in found.items()]


def _identifiers(nodes: list[ast.AST]) -> Iterator[str]:
    """Names that a file binds or reads."""
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
                yield name
            case (ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name)
                  | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name))
                  | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name))):
                yield name
            case ast.alias(name=name, asname=renamed):
                yield renamed or name.split(".", 1)[0]
