"""A JAX program on several devices with its plain version, printed as HLO and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.spec.placement import AxisPlacements

Axes = tuple[str | None, ...]
"""The mesh axis that cuts each dim, as in JAX's PartitionSpec."""


@dataclass(frozen=True)
class Program:
    """A program of JAX: ``plain`` on one device, ``body`` on each device of ``mesh``."""

    plain: Callable[..., Any]
    body: Callable[..., Any]
    mesh: dict[str, int]
    arguments: dict[str, tuple[tuple[int, ...], Axes]]
    results: tuple[Axes, ...]
    faults: tuple[str, ...] = ()
    integers: frozenset[str] = field(default_factory=frozenset)

    def texts(self, fault: str = "", compiled: bool = True) -> tuple[str, str]:
        """HLO of the plain and of the distributed program, as the compiler leaves them or
        (whole tensors in and out) as JAX hands them over."""
        import jax
        import numpy as np

        devices = np.array(jax.devices()[: int(np.prod(list(self.mesh.values())))])
        mesh = jax.sharding.Mesh(devices.reshape(tuple(self.mesh.values())), tuple(self.mesh))
        spec = jax.sharding.PartitionSpec
        places = tuple(spec(*axes) for axes in self.results)

        def body(*args: Any) -> Any:
            return self.body(fault, *args)

        # JAX names the inputs of the module after the arguments.
        body.__signature__ = signature(self.plain)  # type: ignore[attr-defined]
        spread = jax.shard_map(
            body,
            mesh=mesh,
            in_specs=tuple(spec(*axes) for _, axes in self.arguments.values()),
            out_specs=places if len(places) > 1 else places[0],
            check_vma=False,
        )
        return self._text(self.plain, compiled), self._text(spread, compiled)

    def _text(self, f: Callable[..., Any], compiled: bool) -> str:
        import jax
        import jax.numpy as jnp

        given = [
            jax.ShapeDtypeStruct(shape, jnp.int32 if name in self.integers else jnp.float32)
            for name, (shape, _) in self.arguments.items()
        ]
        lowered = jax.jit(f, keep_unused=True).lower(*given)
        text = lowered.compile().as_text() if compiled else lowered.as_text(dialect="hlo")
        return str(text)

    def spec(self, name: str, fault: str = "", compiled: bool = True) -> Spec:
        """The check of this program, or of one with a fault."""
        title = name + (f", {fault}" if fault else "")
        return self.spec_of(title, *self.texts(fault, compiled), compiled)

    def spec_of(self, name: str, plain: str, spread: str, compiled: bool) -> Spec:
        """The check of two texts that were printed before."""
        # Before compiling, every rank is handed whole tensors, and returns whole ones.
        placed = self._placed if compiled else lambda _: {}
        inputs = {k: placed(axes) for k, (_, axes) in self.arguments.items()}
        outputs = {f"out{k}": placed(axes) for k, axes in enumerate(self.results)}
        return Spec.from_graphs(
            name=name,
            sequential=plain,
            distributed=spread,
            mesh=Mesh(**self.mesh),
            inputs=inputs,
            outputs=outputs,
        )

    def _placed(self, axes: Axes) -> AxisPlacements:
        cuts = {axis: Shard(d) for d, axis in enumerate(axes) if axis}
        return {axis: cuts.get(axis, Replicate()) for axis in self.mesh}
