"""Processor seconds and memory of calls. Other programs on the machine hardly change them, unlike time by the clock."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

LIMIT = 600.0  # seconds by the clock after which a process is stopped


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the processor (all threads) and by the clock, and peak gigabytes; or the reason why there are none."""

    processor: float = math.nan
    wall: float = math.nan
    memory: float = math.nan
    error: str = ""


def processor(call: Callable[[], object], repeats: int = 1) -> float:
    """The smallest of several measurements."""
    times = []
    for _ in range(repeats):
        used = time.process_time()
        call()
        times.append(time.process_time() - used)
    return min(times)


def against(base: Callable[[], object], ours: Callable[[], object], repeats: int = 3) -> str:
    """The ratio of the two, measured alternately after a first call."""
    ours()
    pairs = [(processor(base), processor(ours)) for _ in range(repeats)]
    short, long = (min(times) for times in zip(*pairs, strict=True))
    return f"{long / short:.2f} times ({long:.2f} s against {short:.2f} s)"


def _send(work: Callable[..., object], first: tuple[Any, ...], arguments: tuple[Any, ...], to: Connection) -> None:
    try:
        work(*first)
        start, used = time.perf_counter(), time.process_time()
        work(*arguments)
        seconds = time.process_time() - used, time.perf_counter() - start
        # Not ``ru_maxrss``: a new process begins with that of its parent.
        status = dict(entry.split(":", 1) for entry in Path("/proc/self/status").read_text().splitlines())
        to.send(Measured(*seconds, int(status["VmHWM"].split()[0]) / 1e6))
    except Exception as error:
        to.send(Measured(error=f"{type(error).__name__}: {error}"))


def alone(work: Callable[..., object], first: tuple[Any, ...], arguments: tuple[Any, ...]) -> Measured:
    """One call in a process of its own, after one with the arguments ``first``, which imports what is needed."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, first, arguments, send))
    process.start()
    send.close()
    try:
        answer = receive.recv() if receive.poll(LIMIT) else Measured(error=f"not finished after {LIMIT:.0f} s")
    except EOFError:
        answer = Measured(error="the process died")
    process.kill()
    process.join()
    return answer
