"""Certificates of a proof, and the checker that re-derives every step of one.

The checker (everything here but :mod:`shardproof.certificate.write`) shares no code with the
inference engine: it rests on the graphs, the size arithmetic of ``ir`` and the declarations of
``ops`` alone.
"""
