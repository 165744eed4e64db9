"""Errors of the elastic package, with one root so that callers can catch them all."""

from __future__ import annotations


class ElasticError(Exception):
    """Root of all errors raised on purpose by ``shardproof.elastic``."""


class InvalidInput(ElasticError, ValueError):
    """An argument, a trace or a configuration does not describe a legal problem."""


class InfeasiblePlan(ElasticError):
    """No barrier within the lookahead satisfies the caps."""


class TooFewWorkers(ElasticError):
    """Fewer live workers are left than the run was told to go on with."""


class ServerLost(ElasticError):
    """The coordination server stopped answering; the run resumes from its last checkpoint."""


class RunOver(ElasticError):
    """The run ended while this worker was away, so it has no final weights to return."""


class Evicted(ElasticError):
    """The server removed this worker (it hung or lost its connection); it has to join again."""
