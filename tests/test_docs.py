"""Every example of the documentation runs, and shows what it says.

The ``python`` blocks of a page run in order in one namespace; a ``text`` block right after one (blank lines between) is what it
prints. In ``console`` blocks bash runs the lines after "$ "; what follows them is their output, stderr included; "..." stands
for anything. A block whose fence names a file after its language (``python mine.py``) is written to that file. Pages run in a
temporary directory that holds ``examples/``. A block after ``<!-- not run: reason -->`` is left out.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
FENCE = re.compile(r"^```(\w*) *([\w.]*)\s*$")


@dataclass
class Block:
    """A fenced block: its language, its text, the line of its first line, the output shown after it or the file it is, if any."""

    language: str
    text: str
    line: int
    output: str | None = None
    file: str = ""


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page that are run, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    i, after, skip = 0, False, False
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if fence is None:
            skip = lines[i].startswith("<!-- not run:") or (skip and not lines[i].strip())
            after = after and not lines[i].strip()
            i += 1
            continue
        end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
        body, language = "\n".join(lines[i + 1 : end]) + "\n", fence[1]
        if fence[2]:
            found.append(Block(language, body, i + 2, file=fence[2]))
        elif language == "text" and after:
            found[-1].output = body
        elif language in ("python", "console") and not skip:
            found.append(Block(language, body, i + 2))
        after, skip = language == "python" and not skip and not fence[2], False
        i = end + 1
    return found


def check(shown: str, got: str, where: str) -> None:
    """What is shown must be what came out, trailing blanks aside; "..." matches anything."""
    want, have = ("\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n" for text in (shown, got))
    assert doctest.OutputChecker().check_output(want, have, doctest.ELLIPSIS), f"{where} shows\n{want}\nbut it is\n{have}"


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> None:
    where = f"{page.name}:{block.line}"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
    if block.output is not None:
        check(block.output, out.getvalue(), where)


def run_console(block: Block, page: Path) -> None:
    commands = re.split(r"^\$ ", block.text, flags=re.M)
    assert commands[0].strip() == "", f"{page.name}:{block.line} does not begin with a command"
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "120"}
    for text in commands[1:]:
        command, _, shown = text.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command}\n{more}"
        done = subprocess.run(
            ["bash", "-c", command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert done.returncode in (0, 1, 2), f"{page.name}: {command} ended with {done.returncode}:\n{done.stdout}"
        check(shown, done.stdout, f"{page.name}:{block.line}: {command}")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # for the files that the page writes
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            run_python(block, page, namespace)
        else:
            run_console(block, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_blocks_are_found() -> None:
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n<!-- not run: slow -->\n```console\n$ false\n```\n```sh\nmake\n```\n"
    (block,) = blocks_of(page)
    assert (block.language, block.text, block.line, block.output) == ("python", "print(1)\n", 2, "1\n")


def test_blocks_that_are_files_are_not_run() -> None:
    file, block = blocks_of("```python mine.py\n1 / 0\n```\n\n```text\nno output\n```\n```python\nimport mine\n```\n")
    assert (file.file, file.text, file.output) == ("mine.py", "1 / 0\n", None)
    assert (block.file, block.text) == ("", "import mine\n")


def test_every_public_name_is_in_the_api_page() -> None:
    import tilesat

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [n for n in tilesat.__all__ if not re.search(rf"\b{n}\b", page)]
    assert not missing, f"docs/api.md says nothing of {', '.join(missing)}"


def test_every_page_is_in_the_map() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md" and f"({p.name})" not in page]
    assert not missing, f"docs/index.md does not lead to {', '.join(missing)}"
