"""A whole job on this machine from one call: server and workers as child processes.

For experiments and notebooks. Children are forked from a helper that has imported torch once, so a
process costs milliseconds instead of seconds.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from shardproof.elastic.errors import ElasticError
from shardproof.elastic.train import serve
from shardproof.elastic.train.config import TrainConfig
from shardproof.elastic.train.job import Job
from shardproof.elastic.train.launch import free_port
from shardproof.elastic.train.worker import run_worker

_PRELOAD = ["torch", "torch.distributed", "torch.distributed.checkpoint", serve.__name__]


def run_on_this_machine(
    config: TrainConfig,
    make: Callable[[TrainConfig], Job],
    *,
    timeout: float = 600.0,
    preload: Sequence[str] = (),
) -> TrainConfig:
    """Run ``config.workers`` workers and a server to the end; returns the configuration used.

    make: builds the job in each worker process; it is pickled, so it must live in a module (or be a
    ``functools.partial`` of such a function). timeout: seconds. preload: further modules to import
    once for all workers, effective at the first call in a process. Raises ElasticError if any
    process fails or the time is up.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_PRELOAD, *preload])
    config = replace(config, port=config.port or free_port(config.host))
    workdir = Path(config.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    config.write(workdir / "config.json")
    server = context.Process(target=_serve, args=(str(workdir / "config.json"),))
    workers = [context.Process(target=_work, args=(config, make)) for _ in range(config.workers)]
    processes = [server, *workers]
    for process in processes:
        process.start()
    deadline = time.monotonic() + timeout
    try:
        for process in [*workers, server]:
            process.join(max(deadline - time.monotonic(), 0.0))
        codes = [process.exitcode for process in processes]
        if any(code != 0 for code in codes):
            raise ElasticError(f"exit codes of the server and the workers: {codes}")
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    return config


def _serve(path: str) -> None:
    raise SystemExit(serve.main(path))


def _work(config: TrainConfig, make: Callable[[TrainConfig], Job]) -> None:
    torch.set_num_threads(1)
    job = make(config)
    job.address = (config.host, config.port)
    run_worker(job)
