"""`pytest --isonomy audit.toml`: every test of an audit file as a test of the suite.

The plugin is found by pytest where isonomy is installed; without the option it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from isonomy.report import Entry


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("isonomy", "fairness audits").addoption(
        "--isonomy",
        action="append",
        default=[],
        metavar="AUDIT",
        help="run an isonomy audit file; each of its tests is a test, failed by the verdicts in its fail_on",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in config.getoption("--isonomy"):
        items.extend(AuditFile.from_parent(session, path=Path(name).resolve()).collect())


class AuditFile(pytest.File):
    """An audit file. It is run once, with the first of its tests."""

    _entries: dict[str, Entry] | None = None

    def collect(self) -> Iterator[AuditTest]:
        from isonomy.audit import Audit
        from isonomy.errors import IsonomyError

        try:
            self.audit = Audit.from_toml(self.path)
        except IsonomyError as error:
            raise pytest.UsageError(str(error)) from None
        for name in self.audit.config.names:
            yield AuditTest.from_parent(self, name=name)

    def entry(self, name: str) -> Entry:
        if self._entries is None:
            self._entries = {entry.name: entry for entry in self.audit.run().entries}
        return self._entries[name]


class AuditTest(pytest.Item):
    parent: AuditFile

    def runtest(self) -> None:
        """Fail by the audit's own rule; a test that found nothing to test fails too."""
        entry = self.parent.entry(self.name)
        if entry.fault is not None or entry.failures(self.parent.audit.config.fail_on):
            words = entry.lead if entry.result is None else entry.result.summary()
            raise AuditFailed(f"{entry.badge}: {entry.heading}\n\n{words}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The finding in words instead of a traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, AuditFailed) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"isonomy: {self.name}"


class AuditFailed(Exception):
    """A verdict that the audit fails on, or no answer."""
