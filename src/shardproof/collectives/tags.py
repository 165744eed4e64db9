"""Messages that only their tags tell apart. Some backends match the messages between two ranks by
tag, NCCL in the order of the calls whatever the tag."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from shardproof.collectives.match import CollectiveStep, Schedule
from shardproof.ir.communicators import MESSAGES, communicator, members
from shardproof.ir.graph import Node, Program


def overtaking(program: Program, schedule: Schedule) -> list[str]:
    """One text a pair of ranks whose messages are received in another order than they were sent."""
    place = {n: k for g in program.graphs for k, n in enumerate(g.nodes) if n.op in MESSAGES}
    sent: dict[object, list[tuple[int, int, Node]]] = defaultdict(list)
    for step in schedule.steps:
        if isinstance(step, CollectiveStep) and step.kind == "send_recv":
            (source, send), (target, recv) = step.members
            key = (source, target, members(send), communicator(send))
            sent[key].append((place[send], place[recv], recv))
    found = []
    for messages in sent.values():
        messages.sort(key=lambda m: m[0])
        late = next((b for a, b in pairwise(messages) if b[1] < a[1]), None)
        if late is not None:
            found.append(
                f"the message received at {late[2].origin} overtakes an earlier one by its tag: "
                "gloo and MPI do so, NCCL ignores tags"
            )
    return list(dict.fromkeys(found))
