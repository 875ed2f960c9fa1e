"""Running a study: only the items that are not done yet, each row kept the moment it comes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from tilesat.studies.errors import StudyError
from tilesat.studies.executors import rows as rows_of
from tilesat.studies.folder import Folder
from tilesat.studies.manifest import manifest
from tilesat.studies.progress import Progress
from tilesat.studies.work import Row, Study


def run(
    study: Study,
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    executor: str | None = None,
    retry: bool = False,
    progress: bool = False,
    finish: Callable[[list[Row]], dict[str, str]] | None = None,
) -> list[Row]:
    """All rows of ``study``, in the order of its items.

    ``out`` is the results folder: rows that are there are not made again, and ``finish(rows)`` gives the files to put beside
    them. Without it results are kept in memory only. ``retry``: items that failed are run again. ``workers``, ``executor``: see
    :func:`tilesat.studies.executors.rows`.
    """
    items = list(study.items())
    if not items:
        raise StudyError("there is nothing to study: the corpus has no product")
    what = manifest(study)  # which also finds names that mean nothing, before any work
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Folder(out, what)) if out is not None else None
        kept = folder.rows if folder is not None else {}
        done = {item: row for item, row in kept.items() if not (retry and "error" in row)}
        missing = [i for i in items if i not in done]
        bar = stack.enter_context(Progress(study.kind, len(items), len(items) - len(missing), progress))
        coming = rows_of(study, missing, workers, executor) if missing else iter(())
        stack.callback(getattr(coming, "close", lambda: None))
        for row in coming:
            if folder is not None:
                folder.append(row)
            done[row["item"]] = row
            bar.advance("error" in row)
        found = [done[i] for i in items]
        if folder is not None and finish is not None:
            folder.publish(finish(found))
    return found
