"""Packages whose requirements conflict with ours (aequitas needs an older pandas), run in a separate interpreter.

    PEERS/bin/python benchmarks/apart.py tables.npz        prints the measurements as JSON

`benchmarks/peers.py` writes the tables and reads the output. The interpreter is that of ``.venv-peers`` (created by
`make bench`), or the one named by the environment variable PEERS_PYTHON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

LIMIT = 20.0  # time limit in seconds for the tables of one package

Table = dict[str, Any]


def fairaudit(data: Table, side: str) -> bool:
    """Whether any group is flagged at 0.05: as different (``interval``), or only for a lower rate (``upper``)."""
    from fairaudit import Auditor, Metric

    groups = data["group"][:, None] == np.unique(data["group"])
    ones = data["decision"].astype(float)
    auditor = Auditor(np.zeros((ones.size, 1)), ones, ones, Metric("statistical_parity"))
    settings = {"student": "mad", "student_threshold": -np.inf, "seed": 1}
    flags, _ = auditor.flag_groups(groups, side, 0.05, bootstrap_params=settings)
    return bool(np.any(flags))


def aequitas(data: Table) -> bool:
    """Whether any ratio of predicted positives to the largest group is outside 0.8 to 1.25."""
    import pandas as pd
    from aequitas.bias import Bias
    from aequitas.fairness import Fairness
    from aequitas.group import Group

    frame = pd.DataFrame(
        {"group": data["group"].astype(str), "score": data["decision"], "label_value": data["decision"]}
    )
    counts, _ = Group().get_crosstabs(frame)
    ratios = Bias().get_disparity_major_group(counts, original_df=frame)
    fair = Fairness().get_group_value_fairness(ratios)
    return not bool(fair["Impact Parity"].all())


PEERS: dict[str, Callable[[Table], bool]] = {
    "fairaudit: flags, both sides": partial(fairaudit, side="interval"),
    "fairaudit: flags, one side": partial(fairaudit, side="upper"),
    "aequitas: impact parity": aequitas,
}


def measured(call: Callable[[Table], bool], tables: list[Table], large: Table) -> dict[str, Any]:
    """The share of tables with an alarm, and the processor time of one large table; or the error."""
    try:
        started, alarms = time.perf_counter(), []
        for data in tables:
            alarms.append(call(data))
            if time.perf_counter() - started > LIMIT:
                break
        used = time.process_time()
        call(large)
        return {"alarms": sum(alarms) / len(alarms), "tables": len(alarms), "seconds": time.process_time() - used}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}


def main(path: str) -> None:
    """Measure every package."""
    warnings.simplefilter("ignore")
    stored = np.load(path)
    tables = [{"group": g, "decision": d} for g, d in zip(stored["group"], stored["decision"], strict=True)]
    large = {"group": stored["large_group"], "decision": stored["large_decision"]}
    answer: dict[str, Any] = {name: measured(call, tables, large) for name, call in PEERS.items()}
    versions = []
    for package in ("fairaudit", "aequitas", "pandas", "numpy"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    print(json.dumps({"peers": answer, "versions": ", ".join(versions)}))


if __name__ == "__main__":
    main(sys.argv[1])
