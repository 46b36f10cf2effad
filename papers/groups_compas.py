"""COMPAS: the published intervals and flagged groups, and ours.

    python papers/groups_compas.py

Section 6 and Figures 4 to 6 of the paper: positive predictive value; the prediction is a decile score of 5 or more.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from data import find
from ledger import draw, record

ROLES: dict[str, Any] = {"metric": "ppv", "outcome": "two_year_recid", "prediction": "high"}
WHITE = {"race": "Caucasian"}
BLACK = "African-American"
METHODS: dict[str, Any] = {"plugin": "published", "joint": "el"}  # how the reference is treated


def load() -> pl.DataFrame:
    table = pl.read_csv(find("compas-scores-two-years.csv"), infer_schema_length=None)
    return table.with_columns(high=(pl.col("decile_score") >= 5).cast(pl.Int8))


def intervals(table: pl.DataFrame) -> None:
    print("African-American against Caucasian defendants: difference in PPV")
    close = []
    print(f"{'level':8}{'published (plug-in)':24}{'plug-in, ours':22}{'joint, ours':22}p plug-in   p joint")
    for alpha, ends in ((0.05, (0.018, 0.058)), (0.1, (0.022, 0.055))):
        published = f"[{ends[0]}, {ends[1]}]"
        shown, p = [], []
        for method in METHODS.values():
            found = iso.flag(table, groups="race", reference=WHITE, method=method, alpha=alpha, **ROLES)
            i = found.labels.index(f"race={BLACK}")
            shown.append(f"[{found.ci_low[i]:.4f}, {found.ci_high[i]:.4f}]")
            p.append(found.pvalue[i])
            if method == "published":
                close.append(np.abs(np.subtract(ends, (found.ci_low[i], found.ci_high[i]))).max() < 1e-3)
        print(f"{1 - alpha:<8g}{published:24}{shown[0]:22}{shown[1]:22}{p[0]:<12.5f}{p[1]:.5f}")
    record("Groups, COMPAS intervals", all(close), "within 0.001 of the published ends")
    n = {r: table.filter((pl.col("high") == 1) & (pl.col("race") == r)).height for r in (BLACK, "Caucasian")}
    every = table.filter(pl.col("high") == 1).height
    print(f"rows: published 2174 and 3317; ours {n[BLACK]} black, {n['Caucasian']} white, {every} in all\n")


HIGHER = {
    "all",
    "Less than 25",
    "25 - 45",
    "Male",
    "Male & Less than 25",
    "Male & 25 - 45",
}  # in both figures, as the text says
LOWER = {"4a": {"Female"}, "4b": set()}  # of Figure 4b the text names only groups with a higher value


def figure_4(table: pl.DataFrame) -> None:
    """Subgroups by sex and age against all Caucasian defendants, with pointwise levels as in the paper's figure."""
    for title, rows in (
        ("Figure 4a: African-American subgroups", table.filter(pl.col("race").is_in([BLACK, "Caucasian"]))),
        ("Figure 4b: subgroups of all races", table),
    ):
        print(f"{title} against all Caucasian defendants, 95 % intervals (* excludes 0)")
        print(f"{'group':52}{'n':>6}  {'difference':>10}  {'plug-in':22}{'joint':22}")
        everyone = pl.lit("all") if "4b" in title else pl.col("race")
        data = rows.with_columns(everyone.alias("everyone"))
        lines: dict[str, list[str]] = {}
        beyond: dict[bool, set[str]] = {True: set(), False: set()}  # the plug-in intervals above 0, and below
        for name, method in METHODS.items():
            found = iso.flag(
                data,
                groups=["everyone", "sex", "age_cat"],
                depth=3,
                reference=WHITE,
                method=method,
                **ROLES,
            )
            if name == "plugin":
                draw(f"groups_figure_{title[7:9]}", found.plot())
            for i, group in enumerate(found.groups):
                if group.mapping.get("everyone") not in (BLACK, "all") or np.isnan(found.ci_low[i]):
                    continue
                label = " & ".join(str(v) for v in group.mapping.values())
                low, high = found.ci_low[i], found.ci_high[i]
                star = "*" if low > 0 or high < 0 else " "
                if name == "plugin" and star == "*":
                    within = [str(v) for key, v in group.mapping.items() if key != "everyone"]
                    beyond[bool(low > 0)].add(" & ".join(within) or "all")
                head = f"{label:52}{found.n[i]:>6.0f}  {found.disparity[i]:>+10.4f}  "
                lines.setdefault(label, [head]).append(f"{f'[{low:+.4f}, {high:+.4f}]{star}':22}")
        print("\n".join("".join(parts) for parts in lines.values()), "\n")
        lower = LOWER[title[7:9]]
        why = (
            f"the plug-in intervals above 0 are those that the text names{', and so is the one below' if lower else ''}"
        )
        record(f"Groups, {title[:9]}", beyond[True] == HIGHER and beyond[False] >= lower, why)


def siblings(
    table: pl.DataFrame, root: dict[str, str], path: list[str], theta: float, null: float, side: Any
) -> dict[str, tuple[float, bool]]:
    """The authors' procedure: BH among the children of one node at a time, with the reference plugged in.

    Returns the p-value of every tested node before adjustment, and whether it is flagged.
    """
    ((column, label),) = root.items()
    rows, columns = table.filter(pl.col(column) == label), [column, *path]
    options: dict[str, Any] = {"method": "published", "adjust": "bh-siblings", "depth": 3, "min_size": 5, **ROLES}
    result = iso.flag(rows, groups=columns, reference=theta, null=iso.null(null, side=side), **options)
    print(f"  root {label}, BH among siblings, plug-in reference {theta:.4f}")
    nodes = {}
    for group, n, p, verdict in zip(result.groups, result.n, result.pvalue, result.verdicts, strict=True):
        names = [name for name, _ in group.items]
        if names == columns[: len(names)] and not np.isnan(p):
            node = ", ".join(str(value) for _, value in group.items)
            nodes[node] = float(p), bool(verdict == "violation")
            print(f"    {node:48}{n:>6,.0f}  p = {p:.5f}  {'flagged' if nodes[node][1] else ''}")
    print()
    return nodes


def judge(number: str, trees: list[dict[str, tuple[float, bool]]], published: set[str]) -> None:
    """Draw the trees, one box for each node and a frame around flagged ones, and compare these with the published."""
    import altair as alt

    from isonomy.results import theme

    panels = []
    for nodes in trees:
        paths = [node.split(", ") for node in sorted(nodes)]
        columns = {
            "level": [len(path) for path in paths],
            "line": list(range(len(paths))),
            "name": [path[-1] for path in paths],
            "flagged": [nodes[", ".join(path)][1] for path in paths],
        }
        place = {"x": alt.X("level:O", axis=None), "y": alt.Y("line:O", axis=None)}
        base = alt.Chart(theme.data(columns), width=alt.Step(150)).encode(**place)
        frame = base.transform_filter("datum.flagged").mark_rect(filled=False, stroke="#D55E00", strokeWidth=2.5)
        panels.append(base.mark_rect(color="#e8edf3") + frame + base.mark_text().encode(text="name:N"))
    draw(f"groups_figure_{number}", theme.finish(alt.hconcat(*panels)))
    every = {node: number for nodes in trees for node, number in nodes.items()}
    print(f"Figure {number}, flagged: {'; '.join(sorted(node for node, (_, flagged) in every.items() if flagged))}")
    missing = [
        f"{node} (p = {every[node][0]:.3f} before adjustment)" for node in sorted(published) if not every[node][1]
    ]
    why = f"not flagged here: {'; '.join(missing)}" if missing else "the groups that the text names are flagged"
    record(f"Groups, Figure {number}", not missing, why)


def figures_5_and_6(table: pl.DataFrame) -> None:
    positive = table.filter(pl.col("high") == 1)
    white = float(positive.filter(pl.col("race") == "Caucasian")["two_year_recid"].mean())
    average = float(positive["two_year_recid"].mean())
    print("Figure 5, H0: PPV less that of Caucasians <= 0.01. Published flag: African-American, Male, Less than 25")
    roots: list[tuple[dict[str, str], list[str]]]
    roots = [({"race": BLACK}, ["sex", "age_cat"]), ({"age_cat": "Less than 25"}, ["sex", "race"])]
    judge("5", [siblings(table, *root, white, 0.01, "greater") for root in roots], {f"{BLACK}, Male, Less than 25"})
    print("Figure 6, H0: difference from the average PPV >= -0.01. Published flags: Female, Less than 25;")
    print("Caucasian, Greater than 45")
    roots = [
        ({"race": "Caucasian"}, ["sex", "age_cat"]),
        ({"sex": "Female"}, ["age_cat", "race"]),
        ({"race": "Caucasian"}, ["age_cat", "sex"]),
    ]
    published = {"Female, Less than 25", "Caucasian, Greater than 45"}
    judge("6", [siblings(table, *root, average, -0.01, "less") for root in roots], published)
    print("The same hypotheses over all groups of race, sex and age at once (all intersections, at least 10 rows):")
    figures = {"Figure 5": (WHITE, 0.01, "greater"), "Figure 6": ("population", -0.01, "less")}
    for (name, (reference, null, side)), treatment, how in itertools.product(
        figures.items(), METHODS, ("bh", "bh-tree", "by")
    ):
        found = iso.flag(
            table,
            groups=["race", "sex", "age_cat"],
            depth=3,
            reference=reference,
            null=iso.null(null, side=side),
            method=METHODS[treatment],
            adjust=how,
            **ROLES,
        )
        shown = "; ".join(", ".join(map(str, g.mapping.values())) for g in found.flagged) or "none"
        print(f"  {name}, {treatment:6} reference, adjust={how!r}: {shown}")


if __name__ == "__main__":
    compas = load()
    intervals(compas)
    figure_4(compas)
    figures_5_and_6(compas)
