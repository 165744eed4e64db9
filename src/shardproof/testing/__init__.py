"""Program-made mutants of correct programs, and the judgement of verdicts on them.

For tests and benchmarks; nothing of the verifier imports it.
"""
