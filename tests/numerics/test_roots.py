"""One root, and many roots at once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from isonomy.numerics.roots import Values, bisection, outward, root, roots
from isonomy.numerics.status import Status


def counted(function: Values) -> tuple[Values, list[int]]:
    """The function, and the number of problems in each of its calls."""
    sizes: list[int] = []

    def call(x: Any, index: Any) -> Any:
        sizes.append(index.size)
        return function(x, index)

    return call, sizes


def test_one_root_to_the_last_digits() -> None:
    solution = root(np.cos, 0, 3)
    assert solution.status is Status.OK
    assert solution.x == pytest.approx(np.pi / 2, rel=1e-15)


@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (0, np.inf), (-np.inf, 1e6)])
def test_one_root_with_open_ends(low: Any, high: Any) -> None:
    assert root(lambda x: np.arctan(x - 12345.678), low, high).x == pytest.approx(12345.678, rel=1e-13)


def test_one_root_at_an_end_is_found_there() -> None:
    assert root(lambda x: x, 0, 1).x == 0
    assert root(lambda x: x - 1, 0, 1).x == 1
    assert root(lambda x: x - 1, 0, 1).status is Status.OK


def test_no_sign_change_is_a_status_and_names_the_nearer_end() -> None:
    solution = root(lambda x: x + 1, 0, 5)
    assert (solution.x, solution.status) == (0, Status.INFEASIBLE)
    assert root(lambda x: -1 - x, 0, 5).x == 0
    assert root(lambda x: 1.0, -np.inf, np.inf).status is Status.INFEASIBLE
    assert root(lambda x: x, 1, -1).status is Status.INFEASIBLE


def test_nan_and_iteration_limit_are_statuses() -> None:
    assert root(lambda x: np.nan, 0, 1).status is Status.FAILED
    assert root(lambda x: x - 0.3 if abs(x - 0.3) > 0.2 else np.nan, 0, 1).status is Status.FAILED
    assert root(lambda x: x**3 - 0.1, 0, 1, maxiter=2).status is Status.NOT_CONVERGED


def test_errors_of_the_function_itself_come_through() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        root(broken, 0, 1)


def test_tiny_values_of_one_sign_still_expand() -> None:
    assert root(lambda x: 1e-200 * (x - 1e5), 0, np.inf).x == pytest.approx(1e5, rel=1e-14)


def test_infinite_values_at_the_ends_count_by_sign() -> None:
    def logit(x: Any) -> Any:
        return np.inf if x == 1 else -np.inf if x == 0 else np.log(x / (1 - x)) - 2

    assert root(logit, 0.5, 1).x == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-14)
    assert root(logit, 0, 1).x == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-14)


def test_a_root_at_zero_inside_the_bracket() -> None:
    solution = root(lambda x: x**3 + 1e-30, -1, 3)
    assert solution.status is Status.OK
    assert solution.x == pytest.approx(-1e-10, rel=1e-6)


def test_a_tiny_root_keeps_relative_accuracy() -> None:
    assert root(lambda x: np.log(x) + 400, 1e-300, 1).x == pytest.approx(np.exp(-400), rel=1e-12)


@pytest.mark.parametrize(("end", "farthest", "found"), [(5.0, np.inf, 5.0), (5.0, 2.0, np.inf), (np.inf, 9.0, np.inf)])
def test_steps_outward(end: float, farthest: float, found: float) -> None:
    assert outward(lambda x: x - end, 0.3, farthest, rtol=1e-12) == pytest.approx(found)
    assert np.isnan(outward(lambda x: np.nan if x > 1 else x - end, 0.3, rtol=1e-12))


def test_many_roots_against_the_closed_form() -> None:
    a = np.geomspace(1e-8, 1e8, 2001)
    function, sizes = counted(lambda x, i: (np.exp(x) - a[i], np.exp(x)))
    solution = roots(function, np.full(a.size, -50.0), 50.0, direction="increasing")
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, np.log(a), rtol=1e-13, atol=1e-13)
    assert sum(sizes) < 40 * a.size


def test_many_roots_with_open_ends() -> None:
    a = np.array([-1e9, -1.0, 0.0, 3.0, 1e12])
    solution = roots(
        lambda x, i: (np.cbrt(x - a[i]), 1 / (3 * np.cbrt(x - a[i]) ** 2)),
        -np.inf,
        np.full(a.size, np.inf),
        direction="increasing",
    )
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=1e-12, atol=1e-12)


def test_only_unfinished_problems_are_evaluated() -> None:
    a = np.array([0.5, 2.0, 1e6])
    function, sizes = counted(lambda x, index: (x**3 - a[index], 3 * x**2))
    solution = roots(function, np.zeros(3), 1e3, x0=[0.5 ** (1 / 3), 1.0, 1e3], direction="increasing")
    np.testing.assert_allclose(solution.x, np.cbrt(a), rtol=1e-14)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 3


def test_a_mix_of_statuses() -> None:
    def function(x: Any, index: Any) -> Any:
        value = np.array([x_ - 1 if k == 0 else x_ + 5 if k == 1 else np.nan for x_, k in zip(x, index, strict=True)])
        return value, np.ones(x.size)

    solution = roots(
        function, np.array([0.0, 1.0, 0.0, 3.0, np.nan]), np.array([4.0, 4.0, 4.0, 2.0, 1.0]), direction="increasing"
    )
    assert list(solution.status) == [
        Status.OK,
        Status.INFEASIBLE,
        Status.FAILED,
        Status.INFEASIBLE,
        Status.INFEASIBLE,
    ]
    assert solution.x[0] == 1
    assert solution.x[1] == pytest.approx(1)


def test_nan_inside_the_bracket_is_a_failure_of_that_problem_only() -> None:
    solution = roots(
        lambda x, i: (np.where((i == 0) & (np.abs(x) < 1), np.nan, x), np.ones(x.size)),
        [-1.0, -1.0],
        [2.0, 2.0],
        direction="increasing",
    )
    assert list(solution.status) == [Status.FAILED, Status.OK]


def test_iteration_limit() -> None:
    function, sizes = counted(lambda x, i: (np.sign(x) * np.abs(x) ** 0.2 - 0.3, np.zeros(x.size)))
    solution = roots(function, [-1.0], [9.0], maxiter=5, direction="increasing")
    assert solution.status[0] is Status.NOT_CONVERGED
    assert len(sizes) == 5


def test_no_problem_at_all() -> None:
    solution = roots(lambda x, i: (x, x), np.empty(0), np.empty(0), direction="increasing")
    assert solution.x.shape == solution.status.shape == (0,)


def test_direction_never_touches_the_ends_which_may_be_poles() -> None:
    points = []

    def function(x: Any, index: Any) -> Any:
        points.extend(x)
        return 1 / (1 - x) - 1 / x, 1 / (1 - x) ** 2 + 1 / x**2

    solution = roots(function, [0.0], [1.0], x0=[0.9], direction="increasing")
    assert solution.x[0] == pytest.approx(0.5, rel=1e-14)
    assert 0.0 not in points
    assert 1.0 not in points


def test_direction_without_a_root_is_infeasible() -> None:
    directions: Any = {"increasing": 1.0, "decreasing": -1.0}
    for direction, sign in directions.items():

        def function(x: Any, index: Any, sign: float = sign) -> Any:
            return sign * (x - np.array([1.5, 7.0, -7.0])[index]), np.full(x.size, sign)

        solution = roots(function, np.ones(3), 3.0, direction=direction)
        assert list(solution.status) == [Status.OK, Status.INFEASIBLE, Status.INFEASIBLE]
    # A root on the closed end is a root.
    assert roots(lambda x, i: (x - 3, np.ones(x.size)), [1.0], [3.0], direction="increasing").ok.all()


def test_the_wrong_direction_is_not_reported_as_solved() -> None:
    for low in (0.0, 0.7):
        solution = roots(lambda x, i: (2 - x, -np.ones(x.size)), [low], [3.0], direction="increasing")
        assert not solution.ok.any()
    open_ends = roots(lambda x, i: (2 - x, -np.ones(x.size)), -np.inf, [np.inf], direction="increasing")
    assert open_ends.status[0] is Status.INFEASIBLE


@pytest.mark.parametrize("shift", [0.0, 1e-12, 0.3])
def test_empirical_likelihood_multipliers(shift: Any) -> None:
    # sum z / (1 + lambda z) = 0 for many groups; at shift 0 the root is 0, where the function is only rounding error.
    rng = np.random.default_rng(5)
    z = rng.standard_gamma(2.0, size=(300, 40))
    z -= z.mean(axis=1, keepdims=True) + shift
    low, high = (1 / 40 - 1) / z.max(axis=1), (1 / 40 - 1) / z.min(axis=1)

    def slope(x: Any, index: Any) -> Any:
        q = z[index] / (1 + x[:, None] * z[index])
        return q.sum(axis=1), -(q**2).sum(axis=1)

    function, sizes = counted(slope)
    solution = roots(function, low, high, x0=np.zeros(300), direction="decreasing")
    assert solution.ok.all()
    assert len(sizes) <= 12
    expected = [
        optimize.brentq(lambda x, k=k: (z[k] / (1 + x * z[k])).sum(), low[k], high[k], xtol=1e-16) for k in range(300)
    ]
    np.testing.assert_allclose(solution.x, expected, rtol=1e-11, atol=2e-15)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(-1e4, 1e4)), min_size=1, max_size=20),
    st.sampled_from([1.0, -1.0]),
)
def test_monotone_cubics_agree_with_brent(problems: Any, sign: Any) -> None:
    slope, level = (np.array(v) for v in zip(*problems, strict=True))

    def function(x: Any, index: Any) -> Any:
        return sign * (x**3 + slope[index] * x - level[index]), sign * (3 * x**2 + slope[index])

    solution = roots(function, np.full(slope.size, -100.0), 120.0, direction="increasing" if sign > 0 else "decreasing")
    assert solution.ok.all()
    for k, x in enumerate(solution.x):
        exact = optimize.brentq(
            lambda t, k=k: t**3 + slope[k] * t - level[k], -100, 120, xtol=1e-14, rtol=1e-15, maxiter=1000
        )
        # The root of a flat cubic is only determined to the cube root of the rounding error.
        assert x == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_newton_that_would_run_away_is_bisected() -> None:
    # Newton on arctan diverges from beyond 1.39.
    a = np.linspace(-3, 3, 13)
    solution = roots(
        lambda x, i: (np.arctan(x - a[i]), 1 / (1 + (x - a[i]) ** 2)), np.full(13, -1e6), 1e5, direction="increasing"
    )
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=1e-12, atol=1e-9)


def test_newton_that_would_go_round_in_circles_is_bisected() -> None:
    # On sign(x) sqrt|x|, Newton alternates between x and -x forever.
    a = np.array([0.0, 0.3])
    solution = roots(
        lambda x, i: (np.sign(x - a[i]) * np.sqrt(np.abs(x - a[i])), 0.5 / np.sqrt(np.abs(x - a[i]))),
        np.full(2, -5.0),
        5.0,
        x0=1.0,
        direction="increasing",
    )
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=1e-12, atol=1e-14)


def test_rounding_in_the_function_does_not_stall_the_search() -> None:
    # Errors of 1e-10 in the values: Newton's steps stop shrinking a thousand times above the tolerance, and having
    # come from one side they leave a bracket that is still [0, root].
    a = np.linspace(1, 5, 50)
    function, sizes = counted(lambda x, i: (np.exp(x) - np.exp(a[i]) * (1 + 1e-10 * np.sin(1e15 * x)), np.exp(x)))
    solution = roots(function, np.zeros(50), 300.0, x0=a + 1, direction="increasing")
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, a, rtol=2e-10)
    assert len(sizes) < 30  # about 50 if a bisection follows every such step


def test_bisection_over_many_orders_of_magnitude() -> None:
    level = np.array([1e-250, 1e-100, 1e-3])
    function, sizes = counted(lambda x, i: (np.where(x > level[i], 1.0, -1.0), np.zeros(x.size)))
    solution = roots(function, np.full(3, 1e-300), 1.0, direction="increasing")
    assert solution.ok.all()
    np.testing.assert_allclose(solution.x, level, rtol=1e-12)
    assert len(sizes) < 80


def test_bisection_of_many_in_either_direction() -> None:
    target = np.array([0.3, 0.0, 2.0])
    up = bisection(lambda x: x < target, np.zeros(3), np.ones(3))
    np.testing.assert_allclose(up, [0.3, 0.0, 1.0], atol=1e-15)  # the last one is nowhere: the far end
    down = bisection(lambda x: x > target, np.ones(3), np.zeros(3))
    np.testing.assert_allclose(down[:2], [0.3, 0.0], atol=1e-15)
