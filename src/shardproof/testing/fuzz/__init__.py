"""Random sequential programs with random correct distributions of them, and random mutants.

Nothing here knows how inference works: only ``ir``, ``ops`` and the data of ``spec.problem`` are
imported, and ``replay``, which is the judge (import-linter enforces it).
"""
