"""PyPTO text in, a :class:`Program` out. The text is parsed by Python's ``ast``; it is never executed.

``parse`` reads what PyPTO prints (SSA, fully annotated) and what people write (names rebound, annotations left out, short
forms); both become the same SSA program. Refusals are :class:`ParseError`, which names the place, the offending text and what was
expected. The work is linear in the length of the text.

Limits, so that nonsense is refused within seconds: ``MAX_BYTES`` of text and ``MAX_TOKENS`` tokens in text of an unusual layout
(both checked before parsing), ``MAX_DEPTH`` levels of nesting, ``MAX_RANK`` dimensions, integers of 64 bits.
"""

from __future__ import annotations

import ast
import gc
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ir_bridge.ir.names import Names
from ir_bridge.ir.nodes import Expr, Program
from ir_bridge.ir.parse_context import Module
from ir_bridge.ir.parse_errors import ParseError, Source, shorten
from ir_bridge.ir.parse_exprs import MAX_DEPTH, ExprReader
from ir_bridge.ir.parse_module import read_module
from ir_bridge.ir.parse_text import MAX_TOKENS, TooMuch
from ir_bridge.ir.parse_types import MAX_RANK

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_RANK", "MAX_TOKENS", "ParseError", "load", "parse", "parse_expr"]

#: The longest text that is parsed; a thousand tiled matmuls take about 2 MB.
MAX_BYTES = 16 << 20


def parse(text: str, file: str = "<string>") -> Program:
    """The program a PyPTO text holds; ``file`` is the name it goes by in messages. Raises :class:`ParseError`."""
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_BYTES:
        raise ParseError(f"the text has {len(text)} characters", expected=f"at most {MAX_BYTES}", file=file)
    _check_characters(text, file)
    if not text.strip():
        raise ParseError("the text is empty", expected="a class decorated with @pl.program", file=file)
    source = Source(text, file)
    try:
        with _collection_paused(), warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "1if x": Python's tokenizer has opinions on style
            return read_module(source)
    except SyntaxError as error:
        raise _not_python(error, source) from None
    except TooMuch as error:
        raise ParseError(f"the text has about {error} tokens", expected=f"at most {MAX_TOKENS}", file=file) from None
    except (RecursionError, MemoryError):
        raise ParseError("the text is nested too deeply", expected=f"at most {MAX_DEPTH} levels", file=file) from None


def parse_expr(text: str, values: Mapping[str, Expr]) -> Expr:
    """One expression of the language, its names standing for ``values``. Raises :class:`ParseError`."""
    source = Source(text, "<expression>")
    _check_characters(text, source.file)
    try:
        tree = ast.parse(text, mode="eval")
        reader = ExprReader(Module(source), Names())
        reader.env.update(values)
        e = reader.read(tree.body)
    except SyntaxError as error:
        raise _not_python(error, source) from None
    except (RecursionError, MemoryError):
        raise ParseError("the text is nested too deeply", expected=f"at most {MAX_DEPTH} levels", file=source.file) from None
    if reader.pending:
        raise ParseError("a call that needs a statement of its own", text=shorten(text), expected="scalars", file=source.file)
    return e


def load(path: str | os.PathLike[str]) -> Program:
    """The program in a file of UTF-8 text. Raises :class:`ParseError`, also when the file cannot be read."""
    where = Path(path)
    name = str(where)
    try:
        with where.open("rb") as f:
            data = f.read(MAX_BYTES + 1)
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror or error}", expected="a file of PyPTO text", file=name) from None
    if len(data) > MAX_BYTES:
        size = where.stat().st_size
        raise ParseError(f"the file has {max(size, len(data))} bytes", expected=f"at most {MAX_BYTES}", file=name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        offending = f"byte 0x{data[error.start]:02x}"
        raise ParseError(
            "the file is not UTF-8", line=line, column=column, text=offending, expected="UTF-8 text", file=name
        ) from None
    return parse(text, name)


def _check_characters(text: str, file: str) -> None:
    """Refuse NUL bytes and lone surrogates, which no text file holds."""
    at = text.find("\0")
    if at < 0:
        if text.isascii():
            return
        try:
            text.encode()
            return
        except UnicodeEncodeError as error:
            at = error.start
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    raise ParseError(
        f"the character {text[at]!r}", line=line, column=column, text=repr(text[at]), expected="plain text", file=file
    )


def _not_python(error: SyntaxError, source: Source) -> ParseError:
    """What Python's parser complained of, as a ParseError."""
    line = error.lineno or 0
    if "integer string conversion" in (error.msg or ""):
        error.msg = "an integer of thousands of digits"
    return ParseError(
        f"not Python: {shorten(error.msg or 'invalid syntax')}",
        line=line,
        column=max(error.offset or 1, 1) if line else 0,
        text=shorten(source.line(line).strip()),
        expected="PyPTO's Python syntax",
        file=source.file,
    )


@contextmanager
def _collection_paused() -> Iterator[None]:
    """No garbage collection meanwhile: a syntax tree is hundreds of thousands of objects, all alive, and no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
