"""Live capture: runs PyTorch programs on tensors without memory and records every operator.

The only package of the verifier that imports torch; nothing imports it until a Spec with live
programs is resolved.
"""

from shardproof.frontends.torch_capture.capture import (
    Captured,
    Described,
    Example,
    Step,
    capture,
    capture_ranks,
)

__all__ = ["Captured", "Described", "Example", "Step", "capture", "capture_ranks"]
