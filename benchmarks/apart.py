"""Packages whose requirements exclude ours, run by an interpreter of their own.

    PEERS/bin/python benchmarks/apart.py decisions | slices TABLES.npz        prints the measurements as JSON

`measured` writes the tables and reads what is printed. The interpreter is that of ``.venv-peers``, which `make bench`
creates, or the one named by the environment variable PEERS_PYTHON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("fairaudit", "aequitas", "divexplorer", "pysubgroup", "pandas", "numpy")
Table = Mapping[str, Any]


def measured(what: str, columns: Table) -> tuple[dict[str, Any], str]:
    """The results of the other interpreter by package, and the versions of its packages."""
    python = os.environ.get("PEERS_PYTHON") or str(Path(__file__).parents[1] / ".venv-peers" / "bin" / "python")
    if not Path(python).exists():
        return {"fairaudit, aequitas, divexplorer, pysubgroup": {"error": "not installed: `make bench` does it"}}, ""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/tables.npz", **columns)
        command = [python, __file__, what, f"{folder}/tables.npz"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1_200, check=False)
    if done.returncode:
        return {"other packages": {"error": done.stderr.strip().rpartition("\n")[2]}}, ""
    answer = json.loads(done.stdout)
    return answer["peers"], answer["versions"]


# ---- in the other interpreter


def fairaudit(data: Table) -> bool:
    """Whether any group is flagged at 0.05 as different."""
    from fairaudit import Auditor, Metric

    groups = data["group"][:, None] == np.unique(data["group"])
    ones = data["decision"].astype(float)
    auditor = Auditor(np.zeros((ones.size, 1)), ones, ones, Metric("statistical_parity"))
    settings = {"student": "mad", "student_threshold": -np.inf, "seed": 1}
    flags, _ = auditor.flag_groups(groups, "interval", 0.05, bootstrap_params=settings)
    return bool(np.any(flags))


def aequitas(data: Table) -> bool:
    """Whether any ratio of predicted positives to the largest group is outside 0.8 to 1.25."""
    import pandas as pd
    from aequitas.bias import Bias
    from aequitas.fairness import Fairness
    from aequitas.group import Group

    decision = data["decision"]
    frame = pd.DataFrame({"group": data["group"].astype(str), "score": decision, "label_value": decision})
    counts, _ = Group().get_crosstabs(frame)
    ratios = Bias().get_disparity_major_group(counts, original_df=frame)
    return not bool(Fairness().get_group_value_fairness(ratios)["Impact Parity"].all())


def timed(call: Callable[[Table], object], data: Table) -> float:
    used = time.process_time()
    call(data)
    return time.process_time() - used


def decisions(stored: Table) -> dict[str, Callable[[], dict[str, Any]]]:
    """The share of tables with an alarm, and the processor time of one large table."""
    tables = [{"group": g, "decision": d} for g, d in zip(stored["group"], stored["decision"], strict=True)]
    large = {"group": stored["large_group"], "decision": stored["large_decision"]}

    def both(call: Callable[[Table], bool]) -> Callable[[], dict[str, Any]]:
        return lambda: {"alarms": float(np.mean([call(data) for data in tables])), "seconds": timed(call, large)}

    return {"fairaudit: flags": both(fairaudit), "aequitas: impact parity": both(aequitas)}


def binned(table: Any, names: list[str]) -> Any:
    """A frame whose numbers are replaced by the names of eight bins."""
    import pandas as pd

    cut = {
        name: pd.qcut(table[name], 8, labels=False) if table[name].dtype.kind == "f" else table[name] for name in names
    }
    return pd.DataFrame(cut).astype(str).assign(y=table["y"])


def pysubgroup(table: Any) -> object:
    import pysubgroup as ps

    space = ps.create_selectors(table, ignore=["y"], nbins=8)
    task = ps.SubgroupDiscoveryTask(table, ps.BinaryTarget("y", 0), space, result_set_size=5, depth=2, qf=ps.WRAccQF())
    return ps.BeamSearch(beam_width=20).execute(task)


def divexplorer(table: Any) -> object:
    from divexplorer import DivergenceExplorer

    some = [f"f{i}" for i in (*range(6), *range(10, 16))]
    found = DivergenceExplorer(binned(table, some))
    return found.get_pattern_divergence(min_support=0.05, boolean_outcomes=["y"])


def slices(stored: Table) -> dict[str, Callable[[], dict[str, Any]]]:
    """The processor time of searches for the subgroup with the fewest positive outcomes."""
    import pandas as pd

    table = pd.DataFrame({name: stored[name] for name in stored})
    return {
        "pysubgroup (beam of 20, two conditions)": lambda: {"seconds": timed(pysubgroup, table)},
        "DivExplorer (support of 5 %, 12 of the features)": lambda: {"seconds": timed(divexplorer, table)},
    }


def main(what: str, path: str) -> None:
    """Measure every package; a failure is reported in its place."""
    warnings.simplefilter("ignore")
    peers: dict[str, Any] = {}
    for name, measure in {"decisions": decisions, "slices": slices}[what](np.load(path)).items():
        try:
            peers[name] = measure()
        except Exception as error:
            peers[name] = {"error": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    print(json.dumps({"peers": peers, "versions": ", ".join(versions)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
