"""An audit of counts: the grouped query for a warehouse, and its answer in place of the rows.

A 0/1 metric needs no row of anybody, only how many there are of each kind. `grouped_query` asks for that in plain SQL;
`on_counts` audits the answer, with the same numbers as the rows would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

from isonomy.audit.conditions import Condition, Cut, OwnMetric, columns_of
from isonomy.audit.config import Config, Data
from isonomy.audit.plan import Planned, plan
from isonomy.audit.questions import annotation_of
from isonomy.audit.runner import Audit
from isonomy.errors import ConfigError
from isonomy.frames.metrics import RATES
from isonomy.options import form_of

COUNT = "isonomy_count"
_ROLES = ("outcome", "prediction")  # 0/1 columns, which can be counted
_COUNTED = ("flag", "certify", "adverse_impact", "project")


def grouped_query(config: Config, table: str | None = None) -> str:
    """The query whose answer `on_counts` reads; ``table`` is written as it is given."""
    if config.data.weight is not None or config.data.cluster is not None:
        raise ConfigError(
            "data: weights and clusters need the rows themselves; counts hold nobody in particular. Run isonomy audit "
            'where the rows are (a query with engine = "duckdb" or "spark" sends only sums), or take weight and '
            "cluster out of the file for the warehouse, where each row may count once and on its own."
        )
    keys: dict[str, list[float] | None] = {}  # column: the edges it is cut at, None where its own values are needed
    for one in plan(config):
        for column, edges in _columns(one):
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
    grouped_query(audit.config)  # refuses tests that need rows
    place, folder = path.resolve(), audit.folder.resolve()
    data = Data(
        path=str(place.relative_to(folder) if place.is_relative_to(folder) else place),
        count=COUNT,
        missing=audit.config.data.missing,
        missing_group=audit.config.data.missing_group,
    )
    columns = audit.config.columns
    others = {role: None for role in type(columns).model_fields if role not in (*_ROLES, "groups")}
    counted = columns.model_copy(update=others)
    config = audit.config.model_copy(update={"data": data, "filters": [], "columns": counted})
    return audit.of_config(config)


def _columns(one: Planned) -> Iterator[tuple[str, list[float] | None]]:
    """The columns whose values a test counts, each with the edges it is cut at."""
    metric = one.options.get("metric")
    if one.kind not in _COUNTED or not _is_counted(metric):
        raise ConfigError(
            f"test {one.name!r} needs the rows themselves; only 0/1 metrics can be answered from counts. Leave it out "
            "of the audit file for the warehouse."
        )
    needed = RATES[metric].roles if isinstance(metric, str) else () if isinstance(metric, OwnMetric) else _ROLES
    for key, value in one.options.items():
        named = form_of(annotation_of(one.kind, key)) == "column"
        if named and key not in _ROLES and key not in ("score", "user") and value is not None:
            raise ConfigError(f"test {one.name!r}: {key} needs the rows themselves; counts hold nobody in particular.")
        if (named and key in needed) or key in ("groups", "metric", "given"):
            for spec in value if isinstance(value, list) else [value]:
                if key != "metric" or isinstance(spec, OwnMetric):
                    yield from (
                        (column, how.edges if isinstance(how, Cut) else None) for column, how in columns_of(spec)
                    )
    yield from ((condition.column, None) for condition in one.test.filters)


def _is_counted(metric: object) -> bool:
    if isinstance(metric, OwnMetric):
        return metric.binary
    several = metric if isinstance(metric, list) else [metric]
    return all(one is None or (isinstance(one, str) and one in RATES) for one in several)


def quoted(name: str) -> str:
    """A name as standard SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _table(config: Config) -> str:
    if config.data.query is not None:
        return f"(\n{config.data.query.strip().rstrip(';')}\n) AS {quoted('rows')}"
    if config.data.path is None:
        raise ConfigError("data: no path and no query; say with --table which table to ask.")
    return quoted(Path(config.data.path).name.partition(".")[0])


def _cut(column: str, edges: Iterable[float]) -> str:
    """A number of each interval in place of all of its numbers: its lower edge, or one below the first."""
    name, at = quoted(column), sorted(edges)
    inner = [f"WHEN {name} < {high!r} THEN {low!r}" for low, high in zip([at[0] - 1, *at], at, strict=False)]
    return f"CASE WHEN {name} IS NULL THEN NULL {' '.join(inner)} ELSE {at[-1]!r} END"


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
    return "'" + text.replace("'", "''") + "'"
