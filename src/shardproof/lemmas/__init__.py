"""Lemmas: the identities that inference may use, one declaration each.

:mod:`shardproof.lemmas.names` has their stable names and imports nothing;
:mod:`shardproof.lemmas.catalogue` has the declarations with their conditions, proofs and checks.
"""
