"""How far a long test is: told to whoever listens, or shown as a bar of its own."""

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
    """Tell ``listener`` how far the tests made inside are, whether or not they show a bar."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tracked(items: Iterable[T], what: str, total: int, *, bar: bool) -> Iterable[T]:
    """The items, one by one, while somebody is told how many are finished; ``bar``: or a bar shows it."""
    listener = _LISTENER.get()
    if listener is not None:
        return _told(items, what, total, listener)
    if not bar:
        return items
    from rich.progress import track

    return track(items, description=what, total=total)


def _told(items: Iterable[T], what: str, total: int, listener: Listener) -> Iterator[T]:
    listener(what, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        listener(what, done, total)
