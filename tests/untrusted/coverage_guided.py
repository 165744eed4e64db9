"""Coverage-guided fuzzing of the readers, as long as you like (needs ``pip install atheris``).

    python -m tests.untrusted.coverage_guided READER -max_total_time=600 [CORPUS]

READER is text, hlo, fx, report or certificate; further arguments go to libFuzzer. Anything that
is not the reader's own error stops the run and is saved as a file.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["shardproof"]):
    from shardproof.certificate.reading import check_file
    from shardproof.errors import InputError
    from shardproof.frontends.import_fx import import_fx
    from shardproof.frontends.import_hlo import import_hlo
    from shardproof.ir.text import TextError, parse_graph
    from shardproof.report.json import ReportError, from_json

from tests.untrusted.seeds import seeds


def quietly(read: Callable[[Any], object], *refusals: type[Exception]) -> Callable[[bytes], None]:
    """The reader, its own errors left out."""

    def one(data: bytes) -> None:
        with contextlib.suppress(*refusals):
            read(data)

    return one


def text(data: bytes) -> str:
    return data.decode(errors="replace")


READERS: dict[str, Callable[[bytes], None]] = {
    "text": quietly(lambda data: parse_graph(text(data)), TextError),
    "hlo": quietly(lambda data: import_hlo(text(data), ranks=2), InputError),
    "fx": quietly(lambda data: import_fx(text(data)), InputError),
    "report": quietly(from_json, ReportError),
    "certificate": quietly(check_file),
}


def main() -> None:
    reader = sys.argv.pop(1)
    if not any(Path(a).is_dir() for a in sys.argv[1:]):
        folder = Path(tempfile.mkdtemp())
        for k, data in enumerate(seeds(reader)):
            (folder / str(k)).write_bytes(data)
        sys.argv.append(str(folder))
    atheris.Setup(sys.argv, READERS[reader])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
