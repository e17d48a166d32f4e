"""Every use of some packages in a file, read from its syntax tree: nothing is imported.

Statements are walked in their order, with what each name stands for by then; bodies of functions
come last, when the module is complete. Paths are dotted: aliases of imports, names that are bound
again, `getattr` and `import_module` with literal names, and star imports are followed. So are names
for what a class of a generation makes, and arguments that are annotated with one. Attributes of
other objects, and names that go through containers or other files, are not.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mjax_ext._audit.scopes import NOTHING, RELEASE, Path, Paths, Scope, join

#: Packages whose paths are followed, and modules whose functions import.
ROOTS = ("jax", "mjax", "mjax_ext", "mjaxlib_shim")
_TOOLS = ("importlib", "sys")
_IMPORTING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception",
              "BaseException"}
_SET = "the library sets it"
_RELEASES = re.compile(r"version|release", re.IGNORECASE)


class Use(NamedTuple):
    """A use: the dotted path, the line, and a note, such as the guard around it."""

    path: str
    line: int
    note: str


class Seen(NamedTuple):
    """A use with its node.

    Attributes:
      path: what it stands for.
      node: the expression, or the alias of an import.
      form: how it is written: `import`, `from`, `name` (a name or a chain of attributes),
        `getattr` (`hasattr` too), `require`, `text` (imported by a text), `set`, `star`,
        `computed`, or `attribute` (of an object that the class makes: `core.Primitive().name`).
      note: such as the guard around it.
    """

    path: Path
    node: ast.AST
    form: str
    note: str


Exports = Callable[[str], Iterable[str]]
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def uses(source: bytes, exports: Exports) -> list[Use]:
    """The uses in a file, by line.

    Args:
      source: its bytes.
      exports: the names that a star import of a module gives.

    Raises:
      SyntaxError: it does not parse.
    """
    found = dict.fromkeys(Use(seen.path.name, getattr(seen.node, "lineno", 0), seen.note)
                          for seen in walk(parsed(source), source, exports))
    return sorted(found, key=lambda use: (use.line, use.path))


def parsed(source: bytes) -> ast.Module:
    """The syntax tree of a file.

    Raises:
      SyntaxError: it does not parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the file: invalid escapes
        try:
            source.decode(tokenize.detect_encoding(io.BytesIO(source).readline)[0])
            return ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error)) from None


def walk(tree: ast.Module, source: bytes, exports: Exports) -> list[Seen]:
    """The uses in a file with their nodes."""
    if b"jax" not in source:
        return []
    walking = _Walk(exports)
    try:
        walking.module(tree)
    except RecursionError as error:
        raise SyntaxError(f"nested too deeply: {error}") from None
    return walking.found


class _Walk:
    def __init__(self, exports: Exports) -> None:
        self.exports = exports
        self.found: list[Seen] = []
        self.guard = ""
        self.scope = Scope()
        self.later: list[tuple[_Function, Scope, str]] = []

    def module(self, tree: ast.Module) -> None:
        self.body(tree.body)
        while self.later:
            function, scope, guard = self.later.pop(0)
            self.scope, self.guard = Scope(scope), guard
            self.parameters(function.args)
            if isinstance(function, ast.Lambda):
                self.visit(function.body)
            else:
                self.body(function.body)

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for node in statements:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        method = getattr(self, f"at_{type(node).__name__}", None)
        if method is not None:
            method(node)
        else:
            self.children(node)

    def children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def use(self, paths: Iterable[Path], node: ast.AST, form: str, note: str = "") -> None:
        """Notes a use of each path."""
        for path in paths:
            if path.name.split(".", 1)[0] in ROOTS:
                notes = dict.fromkeys(filter(None, (note, self.guard, path.guard)))
                self.found.append(Seen(path, node, form, "; ".join(notes)))

    # ---- imports -----------------------------------------------------------------------

    def at_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.split(".", 1)[0]
            if top not in ROOTS and top not in _TOOLS:
                self.scope.bind(alias.asname or top)
                continue
            self.use([Path(alias.name)], alias, "import")
            bound = alias.name if alias.asname else top
            self.scope.bind(alias.asname or top, [Path(bound, self.guard)])

    def at_ImportFrom(self, node: ast.ImportFrom) -> None:
        followed = not node.level and str(node.module).split(".", 1)[0] in (*ROOTS, *_TOOLS)
        for alias in node.names:
            path = Path(f"{node.module}.{alias.name}", self.guard)
            if not followed:
                self.scope.bind(alias.asname or alias.name)
            elif alias.name == "*":
                self.use([path], alias, "star", "all names are imported")
                self.scope.stars.append(str(node.module))
            else:
                self.use([path], alias, "from")
                self.scope.bind(alias.asname or alias.name, [path])

    # ---- expressions: what they stand for ----------------------------------------------

    def paths(self, node: ast.AST | None) -> Paths:
        """Resolves an expression."""
        match node:
            case ast.Name(id=name):
                return self.named(name)
            case ast.Attribute(value=value, attr=attribute):
                return frozenset(path.of(attribute) for path in self.paths(value)
                                 if path is not RELEASE)
            case ast.Call(func=function):
                return self.called(node) or _instances(self.paths(function))
            case ast.IfExp(body=one, orelse=other):
                return self.paths(one) | self.paths(other)
            case ast.BoolOp(values=values):
                return NOTHING.union(*map(self.paths, values))
            case ast.NamedExpr(value=value):
                return self.paths(value)
            case ast.Compare() if self.asks_release(node):
                return frozenset([RELEASE])
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
                if Path("sys.modules") in self.paths(value):
                    return frozenset([Path(name, self.guard)])
        return NOTHING

    def named(self, name: str) -> Paths:
        found = self.scope.find(name)
        if found is not None:
            return found
        for star in self.scope.top().stars:
            if name in self.exports(star):
                return frozenset([Path(f"{star}.{name}", "imported by *")])
        return NOTHING

    def called(self, node: ast.Call) -> Paths:
        """`getattr(module, "name")`, `import_module("name")`, `__import__`, and `require("v1")`."""
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=str(name)),
                                                             *default]):
                guard = f"`getattr` with a default at line {node.lineno}" if default else ""
                return frozenset(Path(f"{path.name}.{name}", guard or path.guard)
                                 for path in self.paths(of)) | NOTHING.union(
                                     *map(self.paths, default))
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)),
                                                                *others]):
                leaf = len(others) > 2 or any(k.arg == "fromlist" for k in node.keywords)
                return frozenset([Path(name if leaf else name.split(".", 1)[0], self.guard)])
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                for path in self.paths(function):
                    if path.name == "importlib.import_module":
                        return frozenset([Path(name, self.guard)])
                    if path.name == "mjax_ext.require":
                        return frozenset([Path(f"mjax_ext.{name}", self.guard)])
        return NOTHING

    def form(self, node: ast.Call) -> str:
        """How a call that stands for something is written."""
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            return "getattr"
        required = any(path.name == "mjax_ext.require" for path in self.paths(node.func))
        return "require" if required else "text"

    def asks_release(self, test: ast.AST) -> bool:
        """Whether a condition is about a release, or about what it has."""
        for node in ast.walk(test):
            match node:
                case ast.Call(func=ast.Name(id="hasattr"), args=[of, _]) if self.paths(of):
                    return True
                case ast.Name(id=name):
                    if _RELEASES.search(name) or RELEASE in (self.scope.find(name) or ()):
                        return True
                case ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                    if _RELEASES.search(name):
                        return True
        return False

    # ---- expressions: uses -------------------------------------------------------------

    def chain(self, node: ast.expr) -> None:
        """Notes what an expression stands for; if that is nothing, what its parts stand for."""
        loads = isinstance(getattr(node, "ctx", None), ast.Load | None)
        paths = self.paths(node)
        of_instances = {path for path in paths if "()" in path.name}
        if named := paths - of_instances:
            form = "text" if isinstance(node, ast.Subscript) else "name"
            self.use(named, node, form if loads else "set", "" if loads else _SET)
            self.bindings(node)
        elif not isinstance(node, ast.Name):
            self.use(of_instances, node, "attribute")
            self.children(node)

    def bindings(self, node: ast.AST) -> None:
        """Names that an expression binds: `(c := jax.core).Primitive`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if isinstance(node, ast.NamedExpr):
            self.assign(node.target, node.value)

    def at_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.chain(node)
        else:
            self.scope.bind(node.id)

    at_Attribute = chain
    at_Subscript = chain

    def at_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name(id="hasattr"), args=[of, ast.Constant(value=str(name))]):
                asked = f"`hasattr` at line {node.lineno}"
                self.use([Path(f"{path.name}.{name}", asked) for path in self.paths(of)], node,
                         "getattr")
            case ast.Call(func=ast.Name(id="setattr"), args=[of, name, value]):
                named = name.value if isinstance(name, ast.Constant) else "*"
                self.use([path.of(str(named)) for path in self.paths(of)], node, "set", _SET)
                self.visit(name)
                self.visit(value)
            case ast.Call(func=ast.Name(id="getattr"), args=[of, name, *others]) if (
                    not isinstance(name, ast.Constant) and self.paths(of)):
                self.use([path.of("*") for path in self.paths(of)], node, "computed",
                         "the name is computed")
                self.visit(name)
                for other in others:
                    self.visit(other)
            case _:
                if paths := self.called(node):
                    self.use(paths, node, self.form(node))
                else:
                    self.children(node)

    def at_Constant(self, node: ast.Constant) -> None:
        """Only in annotations, see `annotation`."""

    def at_Lambda(self, node: ast.Lambda) -> None:
        self.defaults(node.args)
        self.later.append((node, self.scope.around(), self.guard))

    def comprehension(self, node: ast.AST) -> None:
        outer, self.scope = self.scope, Scope(self.scope)
        for generator in node.generators:  # type: ignore[attr-defined]
            self.visit(generator.iter)
            self.visit(generator.target)
            for test in generator.ifs:
                self.visit(test)
        for field in ("elt", "key", "value"):
            if part := getattr(node, field, None):
                self.visit(part)
        self.scope = outer

    at_ListComp = at_SetComp = at_DictComp = at_GeneratorExp = comprehension

    def annotation(self, node: ast.expr | None) -> None:
        """An annotation, or a part of it, may be a text."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            try:
                parsed = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return
            for part in ast.walk(parsed):
                if hasattr(part, "lineno"):
                    part.lineno = node.lineno
                    part.in_text = node  # type: ignore[attr-defined]
            self.visit(parsed)
        elif isinstance(node, ast.Subscript | ast.BinOp | ast.Tuple | ast.List):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.annotation(child)
        elif node is not None:
            self.visit(node)

    # ---- bindings ----------------------------------------------------------------------

    def at_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.assign(target, node.value)

    def assign(self, target: ast.expr, value: ast.expr | None) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self.scope.bind(name, (Path(path.name, path.guard or self.guard)
                                       if path is not RELEASE else path
                                       for path in self.paths(value)))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for one, its in zip(targets, values, strict=True):
                    self.assign(one, its)
            case _:
                self.visit(target)

    def at_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.assign(node.target, node.value)
        elif not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def at_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.assign(node.target, node.value)

    def at_Global(self, node: ast.Global) -> None:
        self.scope.declare(node.names, top=True)

    def at_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.declare(node.names, top=False)

    def at_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        self.branches([*node.body, *node.orelse], [])

    at_AsyncFor = at_For

    def at_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.branches([*node.body, *node.orelse], [])

    def at_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.children(node)
        if node.name:
            self.scope.bind(node.name)

    at_MatchStar = at_MatchAs

    def at_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.children(node)
        if node.rest:
            self.scope.bind(node.rest)

    # ---- scopes ------------------------------------------------------------------------

    def at_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in (*node.decorator_list, *getattr(node, "type_params", ())):
            self.visit(part)
        self.defaults(node.args)
        for argument in _arguments(node.args):
            self.annotation(argument.annotation)
        self.annotation(node.returns)
        self.scope.bind(node.name)
        self.later.append((node, self.scope.around(), self.guard))

    at_AsyncFunctionDef = at_FunctionDef

    def defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.visit(default)

    def parameters(self, arguments: ast.arguments) -> None:
        many = arguments.vararg, arguments.kwarg
        known = {argument.arg: _instances(self.paths(argument.annotation))
                 for argument in _arguments(arguments) if argument not in many}
        for argument in _arguments(arguments):
            self.scope.bind(argument.arg, known.get(argument.arg, ()))

    def at_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *getattr(node, "type_params", ()), *node.bases,
                     *node.keywords):
            self.visit(part)
        outer, self.scope = self.scope, Scope(self.scope, is_class=True)
        self.body(node.body)
        self.scope = outer
        self.scope.bind(node.name)

    # ---- branches and guards -----------------------------------------------------------

    def branches(self, *bodies: Iterable[ast.stmt], guards: tuple[str, ...] = ()) -> None:
        """Bodies of which one runs; each begins with what names stood for before."""
        before, ends, guard = self.scope.names, [], self.guard
        for index, body in enumerate(bodies):
            self.scope.names = dict(before)
            self.guard = (guards[index] if index < len(guards) else "") or guard
            self.body(body)
            ends.append(self.scope.names)
        self.scope.names, self.guard = join(*ends), guard

    def at_If(self, node: ast.If) -> None:
        self.visit(node.test)
        guard = ""
        if "TYPE_CHECKING" in ast.dump(node.test):
            guard = "for type checkers alone"
        elif self.asks_release(node.test):
            guard = f"under the `if` of line {node.lineno}"
        self.branches(node.body, node.orelse, guards=(guard, guard))

    def at_Try(self, node: ast.Try) -> None:
        handled = {name for handler in node.handlers for name in _exceptions(handler)}
        guard = f"under the `try` of line {node.lineno}" if handled & _IMPORTING else ""
        before = dict(self.scope.names)
        outer, self.guard = self.guard, guard or self.guard
        self.body([*node.body, *node.orelse])
        end = self.scope.names
        self.scope.names, self.guard = join(before, end), outer
        bodies = [handler.body for handler in node.handlers]
        for handler in node.handlers:
            if handler.type:
                self.visit(handler.type)
            if handler.name:
                self.scope.bind(handler.name)
        self.branches(*bodies, [], guards=(guard,) * len(bodies))
        self.scope.names = join(end, self.scope.names)
        self.body(node.finalbody)

    at_TryStar = at_Try

    def at_With(self, node: ast.With) -> None:
        outer = self.guard
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars:
                self.visit(item.optional_vars)
            if "suppress" in ast.dump(item.context_expr) and _IMPORTING & _texts(
                    item.context_expr):
                self.guard = f"under the `suppress` of line {node.lineno}"
        self.body(node.body)
        self.guard = outer


def _instances(classes: Paths) -> Paths:
    """Objects of the surface's classes: their attributes may be others than it promises."""
    return frozenset(Path(f"{path.name}()", path.guard) for path in classes
                     if path.name.startswith("mjax_ext.v") and "(" not in path.name
                     and path.name.rpartition(".")[2][:1].isupper())


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def _exceptions(handler: ast.ExceptHandler) -> set[str]:
    return {"Exception"} if handler.type is None else _texts(handler.type)


def _texts(node: ast.AST) -> set[str]:
    """Names in an expression."""
    return {getattr(n, "id", "") or getattr(n, "attr", "") for n in ast.walk(node)}
