"""Where work items run: in this process, in worker processes, on a Dask cluster. Rows come as they are done, in any order."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tilesat.studies.errors import StudyError
from tilesat.studies.work import INSIDE_WORKER, Payload, Row, Study, pack, run_item, run_remote
from tilesat.studies.worker import receive, send

#: Seconds to wait for a cluster, and for its first worker.
PATIENCE = 30


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rows(study: Study, items: Sequence[str], workers: int | None, executor: str | None) -> Iterator[Row]:
    """The rows of ``items``, as they come. ``workers``: how many processes (0: none, in this one; None: one a core);
    ``executor``: ``dask://HOST:PORT`` of a cluster instead."""
    if executor is not None:
        return _on_cluster(study, items, executor)
    count = usable_cores() if workers is None else workers
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise StudyError(f"workers = {workers!r} is no number of processes: give 0 (in this process) or more")
    if count == 0:
        return (run_item(study, item) for item in items)
    if os.environ.get(INSIDE_WORKER):
        guard = 'if __name__ == "__main__":'
        raise StudyError(f"a study was begun inside of a study's worker: put what starts it in your script under `{guard}`")
    return _in_processes(pack(study), items, min(count, max(1, len(items))))


# -- worker processes --------------------------------------------------------------------------------------------------


class _Worker:
    """One worker process that has the study open."""

    def __init__(self, payload: Payload) -> None:
        start = f"import sys; sys.path[:] = {list(payload.path)!r}; from tilesat.studies.worker import main; main()"
        self.process = subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.orders, self.answers = self.process.stdin, self.process.stdout
        try:
            send(self.orders, pickle.dumps(payload))
            answer = receive(self.answers).decode()
        except (EOFError, BrokenPipeError):
            raise StudyError(f"a worker process {self.how_it_ended()} before it could begin; see stderr") from None
        if answer != "ready":
            self.stop()
            raise StudyError(answer.removeprefix("broken "))

    def run(self, item: str) -> Row | None:
        """The row of an item; None where the process ended over it."""
        try:
            send(self.orders, item.encode())
            row: Row = json.loads(receive(self.answers))
        except (EOFError, BrokenPipeError):
            return None
        return row

    def how_it_ended(self) -> str:
        code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.orders, self.answers):
            with contextlib.suppress(OSError):
                pipe.close()


class _Pool:
    """Threads that each keep one worker process busy."""

    def __init__(self, payload: Payload, items: Sequence[str]) -> None:
        self.payload = payload
        self.waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for item in items:
            self.waiting.put(item)
        self.done: queue.SimpleQueue[Row | StudyError] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.closed = False
        self.running: list[_Worker] = []

    def serve(self) -> None:
        worker: _Worker | None = None
        try:
            while not self.closed:
                item = self.waiting.get_nowait()
                worker = worker or self.start()
                row = worker.run(item)
                if row is None:
                    row = {"item": item, "error": f"the worker process {worker.how_it_ended()} while it ran this item"}
                    worker = None
                self.done.put(row)
        except queue.Empty:
            pass
        except StudyError as e:
            self.done.put(e)

    def start(self) -> _Worker:
        worker = _Worker(self.payload)
        with self.lock:
            self.running.append(worker)
            if self.closed:
                worker.stop()
        return worker

    def close(self) -> None:
        with self.lock:
            self.closed = True
            for worker in self.running:
                worker.stop()


def _in_processes(payload: Payload, items: Sequence[str], count: int) -> Iterator[Row]:
    pool = _Pool(payload, items)
    threads = [threading.Thread(target=pool.serve, daemon=True) for _ in range(count)]
    try:
        for t in threads:
            t.start()
        for _ in items:
            row = pool.done.get()
            if isinstance(row, StudyError):
                raise row
            yield row
    finally:
        pool.close()
        for t in threads:
            t.join()


# -- a cluster ---------------------------------------------------------------------------------------------------------


def _on_cluster(study: Study, items: Sequence[str], executor: str) -> Iterator[Row]:
    address = executor.removeprefix("dask://")
    if address == executor or not address:
        raise StudyError(f"executor {executor!r}: give dask://HOST:PORT, the address of a Dask scheduler")
    try:
        import distributed
    except ImportError as e:
        raise StudyError("a cluster needs Dask, which is the extra 'cluster': pip install 'tilesat[cluster]'") from e
    return _dask_rows(distributed, study, items, address)


def _dask_rows(distributed: Any, study: Study, items: Sequence[str], address: str) -> Iterator[Row]:
    payload = pack(study, by_value=True)
    try:
        client = distributed.Client(f"tcp://{address}", timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as e:
        raise StudyError(f"no Dask scheduler answers at {address}: {e}") from e
    with client:
        _check_cluster(client, address)
        shared = client.scatter(payload, broadcast=True)
        futures = {client.submit(run_remote, shared, item, pure=False): item for item in items}
        for future in distributed.as_completed(list(futures), loop=client.loop):
            if future.status == "finished":
                yield future.result()
            elif future.status == "error":
                failure = future.exception()
                yield {"item": futures[future], "error": f"{type(failure).__name__}: {failure}"}
            else:
                raise StudyError(f"the cluster at {address} is lost; what is done is kept, run the study again to go on")


def _check_cluster(client: Any, address: str) -> None:
    """A cluster is of use when it has a worker, and every worker has this tilesat."""
    import tilesat

    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise StudyError(f"the cluster at {address} has no worker; start one with `dask worker tcp://{address}`") from None
    found = client.run(_version)
    wrong = sorted({v for v in found.values() if v != tilesat.__version__})
    if wrong:
        raise StudyError(f"workers of {address} have tilesat {', '.join(wrong)}, this is {tilesat.__version__}; install the same")


def _version() -> str:
    try:
        import tilesat
    except ImportError:
        return "(none)"
    return tilesat.__version__
