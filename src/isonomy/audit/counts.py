"""An audit of counts: a grouped query for a warehouse, and its result in place of the rows.

A 0/1 metric needs no single row, only the number of rows of each kind. `grouped_query` asks for these in plain SQL;
`on_counts` audits the result, with the same numbers as the rows would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from datetime import date
from pathlib import Path

from isonomy.audit.config import Config, Data, annotation_of
from isonomy.audit.forms import Condition, FileCut, FileProxy, OptionTable, OwnMetric, columns_in
from isonomy.audit.plan import PlannedTest, plan
from isonomy.audit.runner import Audit
from isonomy.audit.table import quoted
from isonomy.errors import ConfigError
from isonomy.frames.metrics import RATES
from isonomy.options import form_of

COUNT = "isonomy_count"
_ROLES = ("outcome", "prediction")  # 0/1 columns, which can be counted


def grouped_query(config: Config, table: str | None = None) -> str:
    """The query whose answer `on_counts` reads; ``table`` is written as it is given."""
    if config.data.weight is not None or config.data.cluster is not None:
        raise ConfigError(
            "data: weights and clusters need the rows themselves, not counts. Run isonomy audit where the rows are (a "
            'query with engine = "duckdb" or "spark" sends only sums), or remove weight and cluster from the audit '
            "file for the warehouse if each row may count once and independently."
        )
    keys: dict[str, list[float] | None] = {}  # column: the edges at which it is cut; None if its values are needed
    for test in plan(config):
        for column, edges in _columns(test):
            known = keys.setdefault(column, edges)
            keys[column] = None if known is None or edges is None else sorted({*known, *edges})
    selected = [
        f"  {quoted(name)}" if edges is None else f"  {_cut(name, edges)} AS {quoted(name)}"
        for name, edges in keys.items()
    ]
    count = "COUNT(*)" if config.data.count is None else f"SUM({quoted(config.data.count)})"
    where = [_condition(condition) for condition in config.filters]
    return "\n".join(
        [
            "SELECT",
            ",\n".join([*selected, f"  {count} AS {quoted(COUNT)}"]),
            f"FROM {table or _table(config)}",
            *(["WHERE " + "\n  AND ".join(where)] if where else []),
            "GROUP BY",
            ",\n".join(f"  {quoted(n) if edges is None else _cut(n, edges)}" for n, edges in keys.items()),
        ]
    )


def on_counts(audit: Audit, path: Path) -> Audit:
    """The same audit of counts. The query has already applied the filters that hold for every test."""
    grouped_query(audit.config)  # raises for tests that need rows
    place, folder = path.resolve(), audit.folder.resolve()
    data = Data(
        path=str(place.relative_to(folder) if place.is_relative_to(folder) else place),
        count=COUNT,
        missing=audit.config.data.missing,
        missing_group=audit.config.data.missing_group,
    )
    columns = audit.config.columns
    others = {role: None for role in type(columns).model_fields if role not in (*_ROLES, "groups")}
    update = {"data": data, "filters": [], "columns": columns.model_copy(update=others)}
    counted = copy(audit)
    counted.config = audit.config.model_copy(update=update)
    return counted


def _columns(test: PlannedTest) -> Iterator[tuple[str, list[float] | None]]:
    metric = test.options.get("metric")
    if not test.test.question.from_counts or not _is_counted(metric):
        raise ConfigError(
            f"test {test.name!r} needs the rows themselves; only 0/1 metrics can be computed from counts. Leave it out "
            "of the audit file for the warehouse."
        )
    groups = test.options.get("groups")
    if any(isinstance(group, FileProxy) for group in (groups if isinstance(groups, list) else [groups])):
        raise ConfigError(f"test {test.name!r}: groups known by probability need the rows themselves, not counts.")
    if isinstance(test.options.get("given"), OptionTable):
        raise ConfigError(f"test {test.name!r}: comparable people need the rows themselves, not counts.")
    needed = RATES[metric].roles if isinstance(metric, str) else () if isinstance(metric, OwnMetric) else _ROLES
    for key, value in test.options.items():
        named = form_of(annotation_of(test.kind, key)) == "column"
        if named and key not in _ROLES and key not in ("score", "user", "batch") and value is not None:
            raise ConfigError(f"test {test.name!r}: {key} needs the rows themselves, not counts.")
        if (named and key in needed) or key in ("groups", "metric", "given", "batch"):
            yield from ((column, how.edges if isinstance(how, FileCut) else None) for column, how in columns_in(value))
    yield from ((condition.column, None) for condition in test.test.filters)


def _is_counted(metric: object) -> bool:
    if isinstance(metric, OwnMetric):
        return metric.binary
    several = metric if isinstance(metric, list) else [metric]
    return all(name is None or (isinstance(name, str) and name in RATES) for name in several)


def _table(config: Config) -> str:
    if config.data.query is not None:
        return f"(\n{config.data.query.strip().rstrip(';')}\n) AS {quoted('rows')}"
    if config.data.path is None:
        raise ConfigError("data: there is no path and no query; name the table with --table.")
    return quoted(Path(config.data.path).name.partition(".")[0])


def _cut(column: str, edges: Iterable[float]) -> str:
    """One number for each interval: its lower edge, or one less than the first edge."""
    name, ends = quoted(column), sorted(edges)
    inner = [f"WHEN {name} < {high!r} THEN {low!r}" for low, high in zip([ends[0] - 1, *ends], ends, strict=False)]
    return f"CASE WHEN {name} IS NULL THEN NULL {' '.join(inner)} ELSE {ends[-1]!r} END"


def _condition(condition: Condition) -> str:
    name, op, value = quoted(condition.column), condition.op, condition.value
    if op in ("is missing", "is present"):
        return f"{name} IS {'' if op == 'is missing' else 'NOT '}NULL"
    if isinstance(value, list):
        return f"{name} {op.upper()} ({', '.join(map(_literal, value))})"
    return f"{name} {({'==': '=', '!=': '<>'}).get(op, op)} {_literal(value)}"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        return repr(value)
    text = value.isoformat() if isinstance(value, date) else str(value)
    return quoted(text, "'")
