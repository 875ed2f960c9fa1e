"""The way through the house (docs/architecture.md), as the code has it: which room imports which, and what the pages name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: What each room may import besides itself, the longest name that fits a module being its room.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "cost": (),
    "ir_bridge.ir": ("cost",),
    "ir_bridge.convert": ("cost", "ir_bridge.ir"),
    "ir_bridge": ("cost", "ir_bridge.ir"),
    "ir_bridge.lower": ("cost", "ir_bridge.ir", "ir_bridge", "egraph_rules"),
    "ir_bridge.lift": ("cost", "ir_bridge.ir", "ir_bridge", "egraph_rules"),
    "ir_bridge.batch": ("cost", "ir_bridge.ir", "egraph_rules"),
    "egraph_rules": ("cost",),
    "extraction": ("cost", "egraph_rules"),
    "tilesat": ("cost", "ir_bridge", "ir_bridge.*", "egraph_rules", "extraction"),
}
MODULES = sorted(p for room in {r.partition(".")[0] for r in MAY_IMPORT} for p in (ROOT / room).rglob("*.py"))


def room_of(module: str) -> str | None:
    """The room a module belongs to; None for modules of others."""
    parts = module.split(".")
    return next((r for n in range(len(parts), 0, -1) if (r := ".".join(parts[:n])) in MAY_IMPORT), None)


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere in it, in functions too; of ``from package import module`` the module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{a.name}" for a in node.names)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_what_the_map_allows(room: str) -> None:
    allowed = {room, *MAY_IMPORT[room], *(r for r in MAY_IMPORT if f"{r.partition('.')[0]}.*" in MAY_IMPORT[room])}
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if room_of(module) == room:
            wrong = {m for m in imported(path) if room_of(m) not in (None, *allowed)}
            assert not wrong, f"{module} imports {', '.join(sorted(wrong))}"


def test_only_the_engine_touches_egglog() -> None:
    engine = ROOT / "egraph_rules" / "engine.py"
    for path in MODULES:
        assert path == engine or not any(m.partition(".")[0] == "egglog" for m in imported(path)), path
        assert path == engine or 'find_spec("egglog")' not in path.read_text(encoding="utf-8"), path


def test_every_room_is_on_the_map() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    folders = {p.parent.relative_to(ROOT).as_posix() for p in MODULES}
    rooms = {f for f in folders if "/" not in f or f.startswith("ir_bridge/")}
    missing = [r for r in sorted(rooms) if f"`{r}/`" not in page]
    assert not missing, f"docs/architecture.md says nothing of {', '.join(missing)}"


@pytest.mark.parametrize("page", ["architecture.md", "coverage.md", "coverage_convert.md"])
def test_files_and_tests_the_maps_name_are_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    places = [ROOT, ROOT / "tests", ROOT / "egraph_rules", ROOT / "ir_bridge", ROOT / "ir_bridge" / "convert"]
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        assert any((p / name).exists() for p in places), f"docs/{page} names {name}, which is not there"
    functions = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").glob("*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        there = (ROOT / "tests" / f"{name}.py").exists() or f"def {name}(" in functions
        assert there, f"docs/{page} names {name}, which is not there"


def test_code_the_coverage_of_conversion_names_is_there() -> None:
    """``module.name``, as the tables write it, of a module of ``ir_bridge/convert/`` unless it says another."""
    page = "coverage_convert.md"
    text = (DOCS / page).read_text(encoding="utf-8")
    for place, name in re.findall(r"`((?:\w+/)*[a-z_]+)\.(\w+)`", text):
        path = ROOT / f"{place}.py" if "/" in place else ROOT / "ir_bridge" / "convert" / f"{place}.py"
        if name != "py" and path.exists():
            code = path.read_text(encoding="utf-8")
            assert re.search(rf"^ *(?:def|class) {name}\b|^{name}\b.*=", code, re.M), f"docs/{page} names {place}.{name}"


def test_every_command_is_on_its_page() -> None:
    """With an example that the tests run: a line of a console block that begins with it."""
    import typer

    from tilesat.cli.app import application

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name, command in vars(typer.main.get_command(application()))["commands"].items():
        for words in [f"{name} {inner}" for inner in getattr(command, "commands", ())] or [name]:
            assert re.search(rf"^\$ tilesat {words}\b", page, re.M), f"docs/cli.md shows no `tilesat {words}`"
