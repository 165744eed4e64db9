"""The file of ``shardproof check --certificate``."""

from __future__ import annotations

from pathlib import Path

from shardproof.cli.outputs import check_writable
from shardproof.report.files import write_whole


class CertificateFile:
    """Is called with the certificate of a proof, if there is one, and writes it.

    Raises:
        InputError: no file can be written there.
    """

    def __init__(self, path: Path) -> None:
        check_writable(path, "--certificate")
        self.path = path
        self.written = False

    def __call__(self, data: bytes) -> None:
        write_whole(self.path, data)
        self.written = True

    def said(self, status: str) -> str:
        """What became of it, for a program of this status. A proof of what was given may be
        followed by a verdict that says less."""
        if self.written:
            but = "" if status == "refines" else f", but the program is {status}"
            return f"certificate: {self.path}{but}"
        left = f" ({self.path} is from before)" if self.path.exists() else ""
        return f"no certificate was written: the program is {status}{left}"
