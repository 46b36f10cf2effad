"""Generators of random numbers, and the seeds that reproduce them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from isonomy.errors import UsageError


@dataclass(frozen=True, slots=True)
class Seed:
    """The seed of a generator: ``entropy`` reproduces it through ``default_rng(entropy)``.

    ``entropy`` is None if the caller passed a Generator, whose state only the caller can record.
    """

    entropy: int | None
    origin: str  # "given", "drawn", "generator"


def resolve(rng: int | np.random.Generator | None) -> tuple[np.random.Generator, Seed]:
    """Turn ``rng`` (None, an int or a Generator) into a Generator and the record of its seed.

    None draws fresh entropy and records it, so that every run can be repeated.
    """
    if isinstance(rng, np.random.Generator):
        return rng, Seed(None, "generator")  # it may have been used already, so its seed would not reproduce it
    if rng is None:
        # JSON readers that store numbers as doubles keep 53 bits.
        entropy = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(11))
        return np.random.default_rng(entropy), Seed(entropy, "drawn")
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise UsageError(f"rng: {rng!r} is not allowed; give None, a non-negative int or a numpy Generator.")
    return np.random.default_rng(int(rng)), Seed(int(rng), "given")


def named_seed(seed: int, name: str) -> int:
    """An integer seed for a named part of a run, independent of the other parts and their order."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(11))
