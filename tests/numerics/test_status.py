"""The statuses of a computation."""

from __future__ import annotations

from isonomy.numerics.status import Status


def test_a_status_is_its_own_lower_case_word() -> None:
    assert [status.value for status in Status] == [status.name.lower() for status in Status]
    assert str(Status.TOO_SMALL) == "too_small"
    assert Status("ok") is Status.OK
