"""Fairness in a test suite: fail the build when an audit shows a violation.

::

    from isonomy.testing import assert_no_violation

    def test_approvals(decisions):
        assert_no_violation(iso.flag(decisions, metric="tpr", groups="race", ..., tolerance=0.02))

    def test_audit():
        assert_no_violation("audit.toml")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isonomy.errors import UsageError, choose, shown
from isonomy.options import check
from isonomy.results import Evidence, Verdict

if TYPE_CHECKING:
    from isonomy.audit import AuditResult


def assert_no_violation(
    *audited: Evidence | AuditResult | str | Path,
    fail_on: Sequence[str] = (Verdict.VIOLATION,),
) -> None:
    """Raise `AssertionError`, with the findings in words, if any verdict is in ``fail_on``.

    Parameters
    ----------
    audited
        Results, whole audits, or paths of audit files (which are run; nothing is written).
    fail_on
        Verdicts that fail the test. ``("violation", "inconclusive")`` accepts only differences that were shown to be
        within tolerance: under this stricter rule, a small sample cannot pass for lack of evidence. Tests that stopped
        with an error, and results in which nothing was tested, always fail.

    Examples
    --------
    >>> import isonomy as iso
    >>> from isonomy.testing import assert_no_violation
    >>> table = iso.simulate.decisions(20_000, seed=1).columns
    >>> result = iso.flag(table, metric="selection_rate", prediction="prediction", groups="race")
    >>> try:
    ...     assert_no_violation(result)
    ... except AssertionError as error:
    ...     print(str(error).splitlines()[0])
    1 of 1 results failed (violation).
    """
    if not audited:
        raise UsageError("assert_no_violation: give a result, an audit or the path of an audit file.")
    check("fail_on", fail_on, Sequence[str])
    refused = tuple(choose("fail_on", str(verdict), [v.value for v in Verdict]) for verdict in fail_on)
    failures: list[tuple[str, str]] = []  # why, and in words
    tests = list(_unfolded(audited))
    for name, result, error in tests:
        if result is None:
            failures.append(("stopped with an error", f"{name}: stopped with an error.\n{error}"))
        elif not result.answered or result.verdict.value in refused:
            why = result.verdict.value if result.answered else "not answered"
            failures.append((why, f"{name}: {why}\n{result.summary()}"))
    if failures:
        head = (
            f"{len(failures)} of {len(tests)} results failed ({', '.join(dict.fromkeys(why for why, _ in failures))})."
        )
        raise AssertionError("\n\n".join([head, *(text for _, text in failures)]))


def _unfolded(
    audited: Sequence[Evidence | AuditResult | str | Path],
) -> Iterator[tuple[str, Evidence | None, str | None]]:
    from isonomy.audit import Audit, AuditResult

    for given in audited:
        if isinstance(given, Evidence):
            yield given.provenance.call, given, None
        elif isinstance(given, (AuditResult, str, Path)):
            audit = given if isinstance(given, AuditResult) else Audit.from_toml(given).run()
            yield from ((entry.name, entry.result, entry.error) for entry in audit.entries)
        else:
            raise UsageError(f"assert_no_violation: {shown(given)}; give results, audits or the paths of audit files.")
