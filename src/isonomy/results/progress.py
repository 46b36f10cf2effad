"""The progress of a long test: reported to a listener, or shown as a progress bar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # what is being done, how many are finished, of how many

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report the progress of the tests run inside to ``listener``, whether or not they show a bar."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tracked(items: Iterable[T], what: str, total: int, *, bar: bool) -> Iterator[T]:
    """The items, one by one, with their progress reported to the listener or, if ``bar``, shown as a bar."""
    listener = _LISTENER.get()
    if listener is None and bar:
        from rich.progress import track

        yield from track(items, description=what, total=total)
        return
    report = listener or (lambda *_: None)
    report(what, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        report(what, done, total)
