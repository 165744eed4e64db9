"""Why an instance does not generalise."""

from __future__ import annotations


class NotGeneral(Exception):
    """The captured instance does not generalise; the text says what stands in the way."""
