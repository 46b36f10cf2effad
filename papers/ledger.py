"""Published beside ours: whether each table and figure agrees, pictures of the figures, and the count at the end.

    python papers/ledger.py

Scripts call `record` once for each table or figure. `make papers` names a file in ISONOMY_PAPERS, in which the entries
are collected, and runs this module last to print them and their count. With ISONOMY_FULL=1 the simulations have as many
replications as the papers', and otherwise as many as a person waits for.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the designs of studies/
DRAWN = Path(__file__).parent / "drawn"
FULL = bool(os.environ.get("ISONOMY_FULL"))
MARKS = {True: "agrees", False: "differs", None: "not compared"}


def record(item: str, agrees: bool | np.bool_ | None, why: str = "") -> None:
    """Print whether a table or figure agrees with the publication, and keep it for the count.

    ``agrees`` is None if nothing was published, or is at hand, that a program could compare. ``why`` is how the
    agreement was judged or, where there is none, the reason.
    """
    agrees = None if agrees is None else bool(agrees)
    print(f"\n{item}: {MARKS[agrees]}{'; ' + why if why else ''}", flush=True)
    if "ISONOMY_PAPERS" in os.environ:
        with Path(os.environ["ISONOMY_PAPERS"]).open("a") as ledger:
            ledger.write(json.dumps({"item": item, "agrees": agrees, "why": why}) + "\n")


def close(published: npt.ArrayLike, ours: npt.ArrayLike, theirs: int, here: int) -> bool:
    """Whether all pairs of simulated shares differ by at most what 99.9 % of all such pairs do by chance.

    ``theirs`` and ``here`` are the numbers of replications. The level is shared by the pairs (Bonferroni).
    """
    from scipy.stats import norm

    first, second = np.asarray(published, dtype=float), np.asarray(ours, dtype=float)
    share = (theirs * first + here * second) / (theirs + here)
    error = np.sqrt(np.maximum(share * (1 - share), 1 / max(theirs, here)) * (1 / theirs + 1 / here))
    return bool((np.abs(first - second) <= norm.isf(0.0005 / first.size) * error).all())


def draw(name: str, chart: Any) -> None:
    """Write a figure as papers/drawn/<name>.svg."""
    from isonomy.results.theme import to_svg

    DRAWN.mkdir(exist_ok=True)
    (DRAWN / f"{name}.svg").write_text(to_svg(chart))
    print(f"drawn: papers/drawn/{name}.svg")


def lines(panels: dict[str, dict[str, tuple[npt.ArrayLike, npt.ArrayLike]]], x: str, y: str, columns: int = 2) -> Any:
    """Panels of named curves, each a pair of arrays."""
    import altair as alt

    from isonomy.results import theme

    charts = []
    for title, curves in panels.items():
        data = {
            x: np.concatenate([np.asarray(first, dtype=float) for first, _ in curves.values()]),
            y: np.concatenate([np.asarray(second, dtype=float) for _, second in curves.values()]),
            "curve": [name for name, (first, _) in curves.items() for _ in np.asarray(first)],
        }
        charts.append(
            alt.Chart(theme.data(data), title=title)
            .mark_line()
            .encode(x=alt.X(f"{x}:Q"), y=alt.Y(f"{y}:Q"), color=alt.Color("curve:N", title=None, sort=list(curves)))
            .properties(width=260, height=180)
        )
    return theme.finish(alt.concat(*charts, columns=columns))


def main() -> None:
    path = os.environ.get("ISONOMY_PAPERS")
    entries = [json.loads(line) for line in Path(path).read_text().splitlines()] if path and Path(path).exists() else []
    print("\nTables and figures of the five papers")
    for entry in entries:
        print(f"  {MARKS[entry['agrees']]:14} {entry['item']}{'; ' + entry['why'] if entry['why'] else ''}")
    count = {mark: sum(entry["agrees"] is mark for entry in entries) for mark in MARKS}
    print(
        f"{len(entries)} tables and figures: {count[True]} agree, {count[False]} differ, {count[None]} have "
        "nothing to be compared with."
    )


if __name__ == "__main__":
    main()
