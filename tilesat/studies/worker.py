"""A worker process: a study comes in on stdin, then item after item; their rows go out on stdout.

It ends when stdin does, so none is left over when the process that started it is killed. What a user's model prints goes to
stderr.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import sys
from typing import IO

from tilesat.studies.errors import StudyError
from tilesat.studies.work import INSIDE_WORKER, Payload, run_item

_LENGTH = struct.Struct(">Q")


def send(stream: IO[bytes], data: bytes) -> None:
    """Write one message."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read one message; EOFError when the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    os.environ[INSIDE_WORKER] = "1"
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    try:
        payload: Payload = pickle.loads(receive(orders))
        try:
            study = payload.open()
        except StudyError as e:
            send(answers, f"broken {e}".encode())
            return
        send(answers, b"ready")
        while True:
            item = receive(orders).decode()
            send(answers, json.dumps(run_item(study, item)).encode())
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    main()
