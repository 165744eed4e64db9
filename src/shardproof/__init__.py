"""Shardproof: prove that a distributed deep-learning program refines its sequential model."""

__version__ = "0.1.0"
