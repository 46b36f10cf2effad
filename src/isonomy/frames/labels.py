"""What people call the table's columns, codes, groups and metrics: the words a result is told in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from isonomy.frames.groups import CONDITION, MISSING, Group, in_words
from isonomy.options import check_fields

Words = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Labels:
    """Words for readers, by the names and values of the table. What has none keeps its own name.

    Parameters
    ----------
    columns : mapping, optional
        Column names to words: ``{"pirat": "payments to income"}``.
    values : mapping, optional
        For each column, its values (as text) to words: ``{"sex": {"1": "men", "2": "women"}}``. The intervals of a cut
        are values too: ``{"age": {"<25": "applicants under 25"}}``.
    groups : mapping, optional
        Whole groups, as results name them without labels, to words: ``{"race=Black & sex=2": "Black women"}``.
    metrics : mapping, optional
        Metric names to words: ``{"selection_rate": "approval rate"}``.
    population : str, optional
        Everybody: ``"all applicants"``.

    Examples
    --------
    >>> import isonomy as iso
    >>> words = iso.Labels(values={"sex": {"1": "men", "2": "women"}}, metrics={"selection_rate": "approval rate"})
    >>> table = {"sex": [1, 2] * 50, "ok": [0, 1, 1, 0] * 25}
    >>> source = iso.open_source(table, labels=words)
    >>> iso.flag(source, metric="selection_rate", prediction="ok", groups="sex").labels
    ('men', 'women')
    """

    columns: Words = field(default_factory=dict)
    values: Mapping[str, Words] = field(default_factory=dict)
    groups: Words = field(default_factory=dict)
    metrics: Words = field(default_factory=dict)
    population: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def named(self, groups: Sequence[Group]) -> tuple[Group, ...]:
        """The groups under the names readers know; those whose names would coincide keep their own."""
        names = [self._name(group) for group in groups]
        times = Counter(names)
        return tuple(
            replace(group, name=name) if name and times[name] == 1 else group
            for group, name in zip(groups, names, strict=True)
        )

    def _name(self, group: Group) -> str:
        if group.label in self.groups:
            return self.groups[group.label]
        if not (self.columns or self.values):
            return ""
        values = [(name, MISSING if value is None else str(value)) for name, value in group.items]
        return ", ".join(value if name == CONDITION else self._words(name, value) for name, value in values)

    def _words(self, column: str, value: str) -> str:
        """The words for one value of a column: its own, or those of the column before it."""
        own = self.values.get(column, {}).get(value)
        return f"{self.columns.get(column, column)} {in_words(value)}" if own is None else own


NOTHING = Labels()
