"""Text into Python syntax trees, function by function.

One tree of a long text is slow to build: its millions of small objects fall out of every cache. Text laid out as usual (a class
of functions four blanks deep, their bodies eight) is therefore parsed in pieces of some dozen statements, and the annotations,
of which a program has few different ones, are taken out first and parsed once each. A wrong cut leaves a piece that is not
Python by itself, so the worst that can happen is a SyntaxError; the reader then turns to :func:`whole`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: A piece is cut at the first body statement after this many lines.
_PIECE_LINES = 60
#: The most tokens that are parsed as one tree: a tree takes a kilobyte a token.
MAX_TOKENS = 1_000_000
_BETWEEN_TOKENS = (*",;.=()[]{}:+-*/%<>|&^@\n", " and ", " or ", " in ", " is ", " not ")
#: Shorter texts gain nothing from being cut.
_WORTH_CUTTING = 200

_ANNOTATION = re.compile(r"^( +\w+: )(pl\.[^\n\"'#]*?\])(?= = pl\.)", re.MULTILINE)
_BODY_STATEMENT = re.compile(r"^ {8}(?![ \n]|else\b|elif\b|#)")
#: A tensor type of a parameter or result; it names no value.
_TENSOR = re.compile(r"pl\.Tensor\[\[[0-9, ]*\], pl\.\w+\]")
#: What makes lines mean something else than they look like: other line ends, text over several lines, our own placeholders.
_UNUSUAL = ("\r", "\f", "\t", '"""', "'''", "T0__")
_CLASS = re.compile(r"^@pl\.program\nclass (\w+):\n", re.MULTILINE)


@dataclass(slots=True)
class FunctionText:
    """One function: its ``def`` (``base`` is to be added to its line numbers) and its body's statements, piece by piece,
    each with its own base. ``complete`` says whether ``node`` holds the body too."""

    node: ast.FunctionDef
    base: int
    body: Callable[[], Iterator[tuple[int, list[ast.stmt]]]]
    complete: bool = True


@dataclass(slots=True)
class ModuleText:
    """A module: its statements at the module level, the functions of its program class, annotations by their placeholders."""

    tree: ast.Module
    functions: list[FunctionText] | None = None
    interned: dict[str, ast.expr] = field(default_factory=dict)


class TooMuch(Exception):
    """A text with more tokens than are parsed in one go; the argument is about how many."""


def tree_of(text: str) -> ast.Module:
    """Python's tree of a text. Raises :class:`TooMuch` before memory runs out, and SyntaxError where it is not Python."""
    if len(text) > MAX_TOKENS:
        tokens = sum(map(text.count, _BETWEEN_TOKENS))
        if tokens > MAX_TOKENS:
            raise TooMuch(tokens)
    return ast.parse(text)


def whole(text: str) -> ModuleText:
    """The text as one tree."""
    return ModuleText(tree_of(text))


def complete_function(node: ast.FunctionDef) -> FunctionText:
    """A function of one tree."""
    return FunctionText(node, 0, lambda: iter([(0, node.body)]))


class _Annotations:
    """Takes annotations out of text; each different one gets a placeholder and is parsed when it is first met."""

    def __init__(self, interned: dict[str, ast.expr]) -> None:
        self._interned = interned
        self._placeholders: dict[str, str] = {}

    def taken_out(self, text: str) -> str:
        """Statements with placeholders for the types of what they assign."""
        return _ANNOTATION.sub(lambda m: m[1] + self._placeholder(m[2]), text)

    def taken_out_of_header(self, text: str) -> str:
        """A function's header with placeholders for its tensor types."""
        return _TENSOR.sub(lambda m: self._placeholder(m[0]), text)

    def _placeholder(self, text: str) -> str:
        found = self._placeholders.get(text)
        if found is None:
            found = self._placeholders[text] = f"T{len(self._placeholders)}__"
            self._interned[found] = ast.parse(text, mode="eval").body
        return found


def in_pieces(text: str) -> ModuleText | None:
    """The text in pieces, when it is long and laid out as usual; else None. Raises SyntaxError for a wrong cut."""
    start = _CLASS.search(text)
    if start is None or text.count("\n") < _WORTH_CUTTING or any(x in text for x in _UNUSUAL):
        return None
    lines = text[start.end() :].rstrip().split("\n")
    first_line = text.count("\n", 0, start.end()) + 1
    module = ModuleText(tree_of(f"{text[: start.end()]}    pass\n"))
    annotations = _Annotations(module.interned)
    functions: list[FunctionText] = []
    at = 0
    while at < len(lines):
        found = _function(lines, at, first_line, annotations)
        if found is None:
            return None
        functions.append(found[0])
        at = found[1]
        while at < len(lines) and not lines[at].strip():
            at += 1
    module.functions = functions
    return module


def _function(lines: list[str], at: int, first_line: int, annotations: _Annotations) -> tuple[FunctionText, int] | None:
    """The function whose decorator is line ``at`` and the line after its body; None when the layout is another one."""
    start = _after_header(lines, at)
    if start is None:
        return None
    end = start
    while end < len(lines) and (lines[end].startswith("        ") or not lines[end].strip()):
        end += 1
    header = annotations.taken_out_of_header("\n".join(lines[at:start]))
    node = tree_of(f"if 1:\n{header}\n        pass\n").body[0].body[0]  # type: ignore[attr-defined]
    body = lines[start:end]
    first = next((x for x in body if x.strip() and not x.lstrip().startswith("#")), "")
    if not isinstance(node, ast.FunctionDef) or _BODY_STATEMENT.match(first) is None:
        return None
    base = first_line + start - 2

    def pieces() -> Iterator[tuple[int, list[ast.stmt]]]:
        start = 0
        while start < len(body):
            stop = start + _PIECE_LINES
            while stop < len(body) and _BODY_STATEMENT.match(body[stop]) is None:
                stop += 1
            text = annotations.taken_out("\n".join(body[start:stop]))
            piece = tree_of(f"if 1:\n{text}\n").body
            if len(piece) != 1:
                raise SyntaxError("a piece that ends outside of the function")
            yield base + start, piece[0].body  # type: ignore[attr-defined]
            start = stop

    return FunctionText(node, first_line + at - 2, pieces, False), end


def _after_header(lines: list[str], at: int) -> int | None:
    """The line after a decorator and a ``def``, which may have its parameters on lines of their own; None for other layouts."""
    if at + 2 >= len(lines) or not lines[at].startswith("    @") or not lines[at + 1].startswith("    def "):
        return None
    end = at + 1
    if not lines[end].endswith(":"):
        end += 1
        while end < len(lines) and not lines[end].startswith("    )"):
            end += 1
    return end + 1 if end < len(lines) and lines[end].endswith(":") else None
