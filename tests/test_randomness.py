"""Valid seeds, and what is recorded about them."""

from typing import Any

import numpy as np
import pytest

from isonomy.errors import UsageError
from isonomy.options import Seed, named_seed, resolve, seed_of


def test_an_integer_is_recorded_and_repeats() -> None:
    number: Any = np.int64(12)
    for given in (12, number):
        generator = resolve(given)
        assert seed_of(generator, given) == Seed(12, "given")
        assert generator.random() == np.random.default_rng(12).random()


def test_none_draws_fresh_entropy_that_repeats_and_survives_json() -> None:
    generator = resolve(None)
    seed = seed_of(generator, None)
    assert seed.origin == "drawn"
    assert seed.entropy is not None
    assert 0 <= seed.entropy < 2**53
    assert generator.random() == np.random.default_rng(seed.entropy).random()
    assert seed != seed_of(resolve(None), None)


def test_a_generator_passes_through() -> None:
    mine = np.random.default_rng(5)
    assert resolve(mine) is mine


@pytest.mark.parametrize("mine", [np.random.default_rng(5), np.random.default_rng(5).spawn(1)[0]])
def test_a_generator_may_have_been_used_and_has_no_seed(mine: np.random.Generator) -> None:
    assert seed_of(resolve(mine), mine) == Seed(None, "generator")


@pytest.mark.parametrize("bad", [True, -1, 1.5, "7"])
def test_anything_else_is_refused(bad: Any) -> None:
    with pytest.raises(UsageError, match="rng"):
        resolve(bad)


def test_named_seeds_depend_on_seed_and_name_only() -> None:
    assert named_seed(1, "flag") == named_seed(1, "flag")
    names = {named_seed(seed, name) for seed in (1, 2) for name in ("flag", "certify", "flag-2")}
    assert len(names) == 6
    assert all(0 <= n < 2**53 for n in names)
