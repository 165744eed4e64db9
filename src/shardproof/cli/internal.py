"""The one message about a failure of our own."""

from __future__ import annotations

import platform
import traceback

from shardproof import __version__


def describe(error: BaseException) -> str:
    """What failed, where, and what to send us."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "?"
    return (
        f"internal error SP900: {type(error).__name__}: {error}\n"
        f"  where: {where}\n"
        f"  This is a fault of shardproof, and no verdict about your program.\n"
        f"  next: run again with --debug and report the output, with shardproof {__version__}, "
        f"Python {platform.python_version()}\n"
    )
