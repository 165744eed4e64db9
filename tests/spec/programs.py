"""Small programs in the text form, shared by the tests of the Spec."""

SEQUENTIAL = """\
graph seq
%x = input f32[8, 4]
%w = input f32[4, 6]
%h = matmul(%x, %w)
%s = exp(%h)
return %h, %s
"""


def rank(k: int, rows: int = 4) -> str:
    """One rank of two: rows of x are sharded."""
    return f"""\
graph part
rank {k}
mesh tp=2
%x = input f32[{rows}, 4]
%w = input f32[4, 6]
%h = matmul(%x, %w)
%s = exp(%h)
return %h, %s
"""


RANKS = [rank(0), rank(1)]

SYMBOLIC_SEQUENTIAL = """\
graph seq
sizes N, S, D, f
%x = input f32[S, D]
%w1 = input f32[D, N*f]
%w2 = input f32[N*f, D]
%h = matmul(%x, %w1)
%y = matmul(%h, %w2)
return %y
"""

SPMD = """\
graph mlp
mesh tp=N
sizes S, D, f
%x = input f32[S, D]
%w1 = input f32[D, f]
%w2 = input f32[f, D]
%h = matmul(%x, %w1)
%p = matmul(%h, %w2)
%y = all_reduce(%p) {op="sum", group=("tp",)}
return %y
"""
