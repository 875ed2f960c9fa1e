"""The named suites, and what a corpus specification means."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cost.errors import suggestion
from cost.hardware import Target, get_target
from cost.problem import Problem
from tilesat.corpus import programs, shapes
from tilesat.corpus.entries import Corpus, CorpusError, Entry

if TYPE_CHECKING:
    from ir_bridge.ir.nodes import Program

#: Every suite with one line that says what is in it.
SUITES: dict[str, str] = {
    "smoke": "a dozen small products and one program of every kind; under a minute",
    "standard": "every published shape (per-core tiles, whole-device products cut to a core) and programs of every kind",
    "full": "standard, and 120 generated programs (seeded)",
}

#: Seed of the generated programs of ``full``.
SEED = 20260801

_SOURCE = "generated"
_KINDS: dict[str, Callable[..., Program]] = {
    "plain": programs.plain,
    "bias": programs.biased,
    "chain": programs.chain,
    "rawchain": programs.raw_chain,
    "vecleft": programs.vec_left,
    "pipeline": programs.pipeline,
    "splitk": programs.split_k,
    "decode": programs.decode_layer,
    "attention": programs.attention_block,
    "mlp": programs.expert_mlp,
}

_SMOKE: tuple[tuple[Any, ...], ...] = (
    ("plain", 128, 128, 64, "bf16"),
    ("bias", 64, 128, 128, "bf16"),
    ("chain", 128, 128, 128, 64, "bf16"),
    ("vecleft", 32, 128, 64, "bf16"),
    ("pipeline", 64, 256, 128, 64, "bf16"),
    ("splitk", 32, 128, 128, 512, "int8"),
    ("decode", 16, 512, 256, 64, 128, "bf16"),
    ("attention", 64, 128, 64, 2, "bf16"),
    ("mlp", 16, 256, 128, "int8"),
)
_STANDARD: tuple[tuple[Any, ...], ...] = (
    ("plain", 320, 320, 64, "bf16"),
    ("plain", 256, 160, 256, "fp16"),
    ("plain", 256, 512, 256, "int8"),
    ("plain", 176, 208, 112, "fp32"),
    ("bias", 64, 512, 256, "bf16"),
    ("bias", 256, 256, 128, "fp16"),
    ("bias", 192, 160, 96, "fp32"),
    ("chain", 256, 256, 256, 128, "bf16"),
    ("chain", 320, 256, 128, 64, "fp16"),
    ("chain", 64, 512, 128, 128, "bf16"),
    ("rawchain", 256, 256, 64, 64, "fp32"),
    ("rawchain", 128, 128, 128, 128, "fp32"),
    ("vecleft", 64, 512, 256, "bf16"),
    ("vecleft", 128, 256, 128, "fp16"),
    ("pipeline", 128, 1024, 128, 128, "bf16"),
    ("pipeline", 64, 512, 128, 64, "bf16"),
    ("splitk", 128, 256, 256, 2048, "bf16"),
    ("splitk", 256, 512, 128, 1024, "bf16"),
    ("splitk", 256, 256, 256, 1024, "int8"),
    ("decode", 16, 2048, 512, 128, 256, "bf16"),
    ("attention", 128, 512, 128, 4, "bf16"),
    ("attention", 256, 256, 64, 2, "fp16"),
    ("mlp", 32, 1024, 256, "int8"),
    ("mlp", 128, 512, 256, "bf16"),
)
#: Shapes of ``smoke``: small, and of every regime.
_SMOKE_SHAPES = (
    (16, 256, 256, "bf16"),
    (16, 128, 16, "bf16"),
    (16, 512, 128, "bf16"),
    (64, 64, 128, "fp32"),
    (128, 256, 64, "int8"),
    (256, 256, 32, "fp32"),
)


def suites() -> tuple[str, ...]:
    """Names of the built-in suites."""
    return tuple(SUITES)


def _made(row: Sequence[Any]) -> Entry:
    kind, *sizes = row
    return Entry(f"{kind}-{'x'.join(map(str, sizes[:-1]))}-{sizes[-1]}", _SOURCE, str(_KINDS[kind](*sizes)))


def generated(count: int, seed: int, target: Target) -> tuple[Entry, ...]:
    """``count`` distinct programs of the one-kernel kinds, drawn from ``seed``; their operands fit Mat together."""
    rng = random.Random(seed)
    found: dict[str, Entry] = {}
    while len(found) < count:
        kind, operand = rng.choice(("plain", "bias", "chain", "splitk")), rng.choice(("bf16", "fp16", "fp32", "int8"))
        if kind == "chain" and operand not in ("bf16", "fp16"):
            continue
        M, N, K = (box * rng.randint(1, 384 // box) for box in (16, 32, 32))
        last = {"chain": 16 * rng.randint(1, 8), "splitk": K * rng.randint(2, 8)}.get(kind)
        held = {"chain": M * N + N * (last or 0)}.get(kind, 0)
        if (M * K + K * N + held) * {"fp32": 4, "int8": 1}.get(operand, 2) <= target.mat * 7 // 8:
            entry = _made((kind, M, N, K, *([] if last is None else [last]), operand))
            found.setdefault(entry.name, entry)
    return tuple(found.values())


def suite(name: str, target: str | os.PathLike[str] | Target = "ascend910b") -> Corpus:
    """A built-in suite. Whole-device products are cut to a core of ``target``. Raises :class:`CorpusError` for another name."""
    if name not in SUITES:
        known = f"{suggestion(name, SUITES)} Suites: {', '.join(SUITES)}"
        raise CorpusError(f"there is no suite {name!r}.{known}; or give a folder of programs or a .csv of shapes")
    chip = get_target(target)
    if name == "smoke":
        small = tuple(shapes.shape(*s, "smoke") for s in _SMOKE_SHAPES)
        return Corpus(name, (*small, *map(_made, _SMOKE)))
    entries = (*shapes.per_core_tiles(), *shapes.whole_device(chip), *map(_made, _STANDARD))
    if name == "full":
        have = {e.name for e in entries}
        entries = (*entries, *(e for e in generated(120, SEED, chip) if e.name not in have))
    return Corpus(name, entries)


#: What a corpus may be given as.
CorpusLike = str | os.PathLike[str] | Corpus | Iterable[Entry | Problem]


def load(spec: CorpusLike, target: str | os.PathLike[str] | Target = "ascend910b") -> Corpus:
    """The corpus a specification means: a suite's name, a folder of programs, a .csv of shapes, a :class:`Corpus`, or entries
    and problems one by one.

    Raises :class:`CorpusError` for a name that is none and a path that cannot be read. A row or file of it that makes no sense
    becomes an entry that says so when its turn comes.
    """
    if isinstance(spec, Corpus):
        return spec
    chip = get_target(target)
    if isinstance(spec, (str, os.PathLike)):
        from tilesat.corpus.files import from_csv, from_folder

        path = Path(spec)
        if spec not in SUITES and (path.exists() or path.suffix.lower() == ".csv" or len(path.parts) > 1):
            return from_folder(path) if path.is_dir() else from_csv(path, chip)
        return suite(str(spec), chip)
    return Corpus("given", tuple(_entry(x) for x in spec))


def _entry(x: Entry | Problem) -> Entry:
    if isinstance(x, Entry):
        return x
    if isinstance(x, Problem):
        parts = [f"{x.M}x{x.N}x{x.K}-{x.a}"]
        parts += ["accumulate"] * x.accumulate + [f"bias-{x.bias}"] * (x.bias is not None) + ["padded"] * x.allow_padding
        text = "" if len(parts) > 1 else str(programs.plain(x.M, x.N, x.K, x.a))
        return Entry("problem-" + "-".join(parts), "given", text, x)
    raise CorpusError(f"a corpus holds entries and problems, not {type(x).__name__}")
