"""The policy of a run, from its configuration: a name of ours or ``module:factory`` of the user."""

from __future__ import annotations

import importlib

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.policies import Policy, make_policy

from .config import TrainConfig


def policy_from_config(config: TrainConfig) -> Policy:
    """Return the policy; a user's factory is called with the configured steps."""
    if ":" not in config.policy:
        return make_policy(config.policy, config.steps)
    module, _, name = config.policy.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)(config.steps)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"cannot load policy {config.policy!r}: {error}") from error
    if not isinstance(made, Policy):
        raise InvalidInput(f"{config.policy} returned a {type(made).__name__}, not a Policy")
    if config.mode == "local" and not made.barriers:
        raise InvalidInput(f"{config.policy} has no barriers; use mode='immediate'")
    return made
