"""``tilesat verify``: is a program well formed, and does it fit the target?"""

from __future__ import annotations

import typer

from tilesat.cli import options
from tilesat.cli.files import read_program
from tilesat.cli.outcome import DONE, FOUND, command
from tilesat.cli.output import note, progress, show_json
from tilesat.cli.tile import tell_misspelt


def register(app: typer.Typer) -> None:
    app.command("verify")(command(verify))


def verify(file: options.File, target: options.TargetName = "ascend910b", json: options.AsJson = False) -> int:
    """Check a program: types, memory spaces, fractal boxes, buffers.

    Prints one finding a line; exits with 1 when there are any.
    """
    import tilesat
    from cost.hardware import get_target

    hardware = get_target(target)
    program = read_program(file)
    with progress(f"verifying {file}"):
        findings = tilesat.verify(program, hardware)
    if json:
        rows = [
            {
                "code": f.code,
                "message": f.message,
                "function": f.function,
                "file": f.loc.file,
                "line": f.loc.line,
                "column": f.loc.col,
            }
            for f in findings
        ]
        show_json({"schema": "tilesat.verify/1", "file": file, "target": hardware.name, "findings": rows})
    else:
        for f in findings:
            print(f)
        tell_misspelt(program)
        note(f"{file}: {len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'} on {hardware.name}")
    return FOUND if findings else DONE
