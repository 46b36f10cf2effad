"""Where randomness comes in, and the record that lets anyone draw it again."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from isonomy.errors import UsageError


@dataclass(frozen=True, slots=True)
class Seed:
    """What was used to make a generator: ``entropy`` reproduces it through ``default_rng(entropy)``.

    ``entropy`` is None when the caller brought a Generator, whose state is the caller's to record.
    """

    entropy: int | None
    origin: str  # "given", "drawn", "generator"


def resolve(rng: int | np.random.Generator | None) -> tuple[np.random.Generator, Seed]:
    """Turn ``rng`` (None, an int or a Generator) into a Generator and the record of its seed.

    None draws fresh entropy and records it, so that every run can be repeated.
    """
    if isinstance(rng, np.random.Generator):
        return rng, Seed(None, "generator")  # it may have been drawn from already: its seed would not repeat it
    if rng is None:
        # 53 bits survive JSON readers that hold numbers as doubles.
        entropy = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(11))
        return np.random.default_rng(entropy), Seed(entropy, "drawn")
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise UsageError(f"rng: {rng!r} is not allowed; give None, a non-negative int or a numpy Generator.")
    return np.random.default_rng(int(rng)), Seed(int(rng), "given")


def named_seed(seed: int, name: str) -> int:
    """An integer seed for one named part of a larger run, unmoved by adding or reordering other parts."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(11))
