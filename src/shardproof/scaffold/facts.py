"""What was seen in a repository, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function: its name, its annotation and default as written."""

    name: str
    annotation: str = ""
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A class that is an ``nn.Module``. ``bases`` are last parts of names; ``calls`` are the parts
    of the names of what its methods call, the classes that it makes among them. ``loss_at``: the
    place of the loss in the tuple that ``forward`` returns, -1 where it returns none. ``ids``,
    ``wholes`` and ``reals`` are arguments of ``forward``: numbers of rows, other whole numbers, and
    real ones, by their use."""

    name: str
    path: Path
    line: int
    init: tuple[Argument, ...] = ()
    forward: tuple[Argument, ...] = ()
    bases: tuple[str, ...] = ()
    calls: frozenset[str] = frozenset()
    returns_loss: bool = False
    loss_at: int = -1
    ids: frozenset[str] = frozenset()
    wholes: frozenset[str] = frozenset()
    reals: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Use:
    """A call that tells how a program is made parallel. ``function`` is the function around it
    with its arguments, None at the top of a file; ``returns`` says that it returns something."""

    what: str
    path: Path
    line: int
    text: str = ""
    function: str | None = None
    arguments: tuple[Argument, ...] = ()
    inside: str = ""
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that starts a number of ranks; ``ranks`` is None where it is a variable."""

    path: Path
    line: int
    command: str
    ranks: int | None


@dataclass(frozen=True, slots=True)
class Made:
    """A class that is no model and is made without arguments, as configurations are."""

    name: str
    path: Path


@dataclass(slots=True)
class Seen:
    """Everything that was seen below ``root``."""

    root: Path
    models: list[Model] = field(default_factory=list)
    plain: list[Made] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    calls: dict[str, set[str]] = field(default_factory=dict)
    """What every function and class calls, by its name."""
    runs_on_import: set[Path] = field(default_factory=set)
    unreadable: list[Path] = field(default_factory=list)
    files: int = 0

    def of(self, *kinds: str) -> list[Use]:
        """The uses of these kinds."""
        return [u for u in self.uses if u.what in kinds]

    def shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()
