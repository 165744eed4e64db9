"""What the ranks of one program do together, while they are captured one after another."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardproof.frontends.torch_capture.groups import Groups
from shardproof.frontends.torch_capture.objects import Objects


@dataclass(frozen=True, slots=True)
class Across:
    """Process groups that they create, and objects that they pass each other."""

    groups: Groups = field(default_factory=Groups)
    objects: Objects = field(default_factory=Objects)

    def start(self, rank: int) -> None:
        """The rank is captured, possibly again."""
        self.groups.start(rank)
        self.objects.start(rank)

    def finish(self) -> None:
        """The rank was captured."""
        self.objects.finish()

    def settled(self) -> bool:
        """Whether what the ranks did in the last pass over all of them fits together, so that no
        rank need be captured again.

        Raises:
            InputError: it never will.
        """
        self.groups.compare()
        return self.objects.settled()
