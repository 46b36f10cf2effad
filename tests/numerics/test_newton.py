"""Where Newton's steps go wrong, they are replaced by bisection; and the parts of which the search is made."""

from typing import Any

import numpy as np
import pytest

from isonomy.numerics.newton import floor, middle, propose
from isonomy.numerics.roots import roots


def test_newton_that_would_run_away_is_bisected() -> None:
    # Newton on arctan diverges from beyond 1.39.
    a = np.linspace(-3, 3, 13)
    solution = roots(lambda x, i: (np.arctan(x - a[i]), 1 / (1 + (x - a[i]) ** 2)), np.full(13, -1e6), 1e5)
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=1e-12, atol=1e-9)


def test_newton_that_would_go_round_in_circles_is_bisected() -> None:
    # On sign(x) sqrt|x| Newton goes from x to -x and back for ever.
    a = np.array([0.0, 0.3])
    solution = roots(
        lambda x, i: (np.sign(x - a[i]) * np.sqrt(np.abs(x - a[i])), 0.5 / np.sqrt(np.abs(x - a[i]))),
        np.full(2, -5.0),
        5.0,
        x0=1.0,
    )
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=1e-12, atol=1e-14)


def test_rounding_in_the_function_does_not_stall_the_search() -> None:
    # Errors of 1e-10 in the values: Newton's steps stop shrinking a thousand times above the tolerance, and having
    # come from one side they leave a bracket that is still [0, root].
    a = np.linspace(1, 5, 50)
    solution = roots(
        lambda x, i: (np.exp(x) - np.exp(a[i]) * (1 + 1e-10 * np.sin(1e15 * x)), np.exp(x)),
        np.zeros(50),
        300.0,
        x0=a + 1,
    )
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=2e-10)
    assert solution.iterations.max() < 30  # about 50 when every such step is answered by a bisection


def test_bisection_over_many_orders_of_magnitude() -> None:
    level = np.array([1e-250, 1e-100, 1e-3])
    solution = roots(lambda x, i: (np.where(x > level[i], 1.0, -1.0), np.zeros(x.size)), np.full(3, 1e-300), 1.0)
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, level, rtol=1e-12)
    assert solution.iterations.max() < 80


def test_the_middle_of_a_wide_bracket_is_the_geometric_mean() -> None:
    a, b = np.array([0.0, 1.0, 1e-8, -1e8, -1.0, 0.0]), np.array([1.0, 3.0, 1.0, -1.0, 1.0, 1e9])
    np.testing.assert_allclose(middle(a, b), [0.5, 2.0, 1e-4, -1e4, 0.0, 5e8])


def test_there_is_an_absolute_tolerance_only_where_a_bracket_straddles_zero() -> None:
    bound = floor(np.array([-1.0, 0.0, 1.0, -4.0]), np.array([2.0, 1.0, 2.0, 2.0]), 1e-10)
    np.testing.assert_allclose(bound, [1e-12, 0.0, 0.0, 2e-12])


@pytest.mark.parametrize(
    ("value", "previous", "expected"),
    [
        (0.2, 1.0, 0.3),  # Newton's step: 0.5 - 0.2
        (0.2, 0.3, 0.5),  # more than half of the last step: the middle of [0, 1]
        (0.7, 9.0, 0.5),  # outside the bracket: the middle
        (np.nan, 9.0, 0.5),
    ],
)
def test_a_newton_step_must_stay_inside_and_halve_the_last(value: Any, previous: Any, expected: Any) -> None:
    one = np.ones(1)
    target = propose(0.5 * one, value * one, one, 0 * one, one, previous * one, 1e-12 * one)
    assert target[0] == pytest.approx(expected)
