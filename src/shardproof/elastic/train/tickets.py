"""Which samples an iteration uses: exact accounting whatever the workers' speeds and fates.

Ticket k names batch ``k mod B`` of pass ``k // B`` over the data, B batches a pass; pass e visits
the samples in a permutation drawn from (seed, e), and the remainder that does not fill a batch sits
that pass out. Tickets are handed out in order to whoever asks, so fast workers take more of them
instead of taking their own shard more often (the published scheme leaves that open, and with fixed
shards the fast workers' samples are over-represented). A ticket is *committed* with its update; the
tickets of a lost worker go back and are handed out again. Hence every pass uses every batch exactly
once, however workers come and go.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from shardproof.elastic.errors import InvalidInput


class Tickets:
    """The server's book of tickets."""

    def __init__(self, committed: Iterable[int] = ()) -> None:
        self.committed: set[int] = set(committed)
        self.issued: set[int] = set()
        self._next = max(self.committed, default=-1) + 1
        self._returned = [k for k in range(self._next) if k not in self.committed]

    def issue(self) -> int:
        """Hand out the lowest ticket that is neither out nor committed."""
        if self._returned:
            ticket = heapq.heappop(self._returned)
        else:
            ticket, self._next = self._next, self._next + 1
        self.issued.add(ticket)
        return ticket

    def commit(self, tickets: Iterable[int]) -> None:
        """Mark tickets as used. Raises InvalidInput for one that is not out: it may be a repeat."""
        for ticket in tickets:
            if ticket not in self.issued:
                raise InvalidInput(f"ticket {ticket} is not outstanding; a second commit?")
            self.issued.remove(ticket)
            self.committed.add(ticket)

    def give_back(self, tickets: Iterable[int]) -> None:
        """Return tickets whose iterations were lost."""
        for ticket in tickets:
            if ticket in self.issued:
                self.issued.remove(ticket)
                heapq.heappush(self._returned, ticket)


def samples_of(ticket: int, *, samples: int, batch_size: int, seed: int) -> list[int]:
    """Sample indices of a ticket; the same on every worker.

    Raises InvalidInput if not even one batch fits.
    """
    import numpy as np

    batches = samples // batch_size if batch_size > 0 else 0
    if batches < 1:
        raise InvalidInput(f"{samples} samples do not fill one batch of {batch_size}")
    epoch, index = divmod(ticket, batches)
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    return [int(i) for i in order[index * batch_size : (index + 1) * batch_size]]
