"""What the parser says when it refuses a text: the place, the offending text, what was expected."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from typing import NoReturn

from cost.errors import TilesatError
from ir_bridge.ir.nodes import Loc

_SHOWN = 120
#: Where Python's tokenizer ends a line (``str.splitlines`` knows more line ends than that).
_LINE_ENDS = re.compile(r"\r\n|\r|\n")


class ParseError(TilesatError):
    """A text that is no program.

    ``line`` and ``column`` count from 1 (0: the text as a whole), ``text`` is the offending piece, ``expected`` what should stand
    there ("" when the problem says it all), ``file`` the name the text came under.
    """

    def __init__(
        self, problem: str, *, line: int = 0, column: int = 0, text: str = "", expected: str = "", file: str = "<string>"
    ) -> None:
        self.problem = problem
        self.line = line
        self.column = column
        self.text = text
        self.expected = expected
        self.file = file
        super().__init__(self._message())

    def _message(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        message = f"{where}: {self.problem}"
        if self.expected:
            message += f"; expected {self.expected}"
        return f"{message}\n    {self.text}" if self.text else message


def shorten(text: str, limit: int = _SHOWN) -> str:
    """The text on one line, cut to ``limit`` characters."""
    flat = text if len(text) <= limit and "\n" not in text else " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` for the known name most like ``name``, else ""."""
    found = difflib.get_close_matches(name[:_SHOWN], list(known), n=1, cutoff=0.6)
    return f" (did you mean {found[0]!r}?)" if found else ""


class Source:
    """The text being parsed: finds the words for a place in it. ``base`` is to be added to the line numbers of nodes."""

    __slots__ = ("_lines", "base", "file", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.base = 0
        self._lines: list[str] | None = None

    def line(self, number: int) -> str:
        """Line ``number``, counted from 1; "" beyond the end."""
        if self._lines is None:
            self._lines = _LINE_ENDS.split(self.text)
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def lineno(self, node: ast.AST) -> int:
        """The line a node begins on, counted from 1."""
        first: int = getattr(node, "lineno", 0)
        return first + self.base

    def snippet(self, node: ast.AST) -> str:
        """The text of a node, on one line, cut short."""
        first, last = self.lineno(node), (getattr(node, "end_lineno", 0) or 0) + self.base
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        head = self.line(first).encode()
        if last == first:
            return shorten(head[start:end].decode(errors="replace"))
        return shorten(head[start:].decode(errors="replace").rstrip() + " …")

    def column(self, node: ast.AST) -> int:
        """The column of a node in characters, counted from 1."""
        start: int = getattr(node, "col_offset", 0)
        line = self.line(self.lineno(node))
        return (start if line.isascii() else len(line.encode()[:start].decode(errors="replace"))) + 1

    def loc(self, node: ast.stmt | ast.expr) -> Loc:
        """The place of a statement or expression."""
        return Loc(node.lineno + self.base, node.col_offset + 1, self.file)

    def error(self, node: ast.AST | None, problem: str, expected: str = "") -> ParseError:
        """The error to raise at ``node``."""
        if node is None or not hasattr(node, "lineno"):
            return ParseError(problem, expected=expected, file=self.file)
        return ParseError(
            problem,
            line=self.lineno(node),
            column=self.column(node),
            text=self.snippet(node),
            expected=expected,
            file=self.file,
        )

    def fail(self, node: ast.AST | None, problem: str, expected: str = "") -> NoReturn:
        """Refuse the text at ``node``."""
        raise self.error(node, problem, expected)
