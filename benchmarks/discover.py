"""Processor time of `discover` on a million rows of 20 features, and of slice finders on a part of the same table.

python benchmarks/discover.py [--rows 1000000] [--peers path/to/python]

Peers run in an environment of their own, because their requirements exclude ours: `pip install pysubgroup sliceline
divexplorer` there, and name its interpreter. A peer that cannot be imported is shown so. None gives an error rate.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso

PART = 100_000  # rows for the peers
# Each script reads the table from sys.argv[1] and prints the processor's seconds.
START = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
table = pd.read_csv(sys.argv[1])
features = [name for name in table if name != "y"]
"""
PEERS = {
    "pysubgroup (beam of 20, two conditions)": """
import pysubgroup as ps
start = time.process_time()
target = ps.BinaryTarget("y", 0)
space = ps.create_selectors(table, ignore=["y"], nbins=8)
task = ps.SubgroupDiscoveryTask(table, target, space, result_set_size=5, depth=2, qf=ps.WRAccQF())
ps.BeamSearch(beam_width=20).execute(task)
print(time.process_time() - start)
""",
    "sliceline (two levels)": """
from sliceline.slicefinder import Slicefinder
start = time.process_time()
binned = table[features].copy()
for name in features:
    if binned[name].dtype.kind == "f":
        binned[name] = pd.qcut(binned[name], 8, labels=False)
Slicefinder(alpha=0.95, k=5, max_l=2, min_sup=1000, verbose=False).fit(binned.values, 1 - table["y"].values)
print(time.process_time() - start)
""",
    "divexplorer (support of 5 %, 12 of the features)": """
try:
    from divexplorer import DivergenceExplorer
except ImportError:
    from divexplorer.divexplorer import DivergenceExplorer
start = time.process_time()
some = features[:6] + features[10:16]
binned = table[some].copy()
for name in some:
    if binned[name].dtype.kind == "f":
        binned[name] = pd.qcut(binned[name], 8, labels=False)
binned = binned.astype(str)
binned["y"] = table["y"]
DivergenceExplorer(binned).get_pattern_divergence(min_support=0.05, boolean_outcomes=["y"])
print(time.process_time() - start)
""",
}


def table_of(rows: int) -> pl.DataFrame:
    """20 features with a common factor, 10 of 2 to 6 levels and 10 numbers; one subgroup of 5 % is worse off by 0.1."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=rows)
    columns: dict[str, Any] = {}
    for i in range(20):
        value = np.sqrt(0.5) * (common + rng.normal(size=rows))
        cuts = np.linspace(-1, 1, 1 + i % 5) if i < 10 else ()
        columns[f"f{i}"] = np.array(list("abcdef"))[np.searchsorted(cuts, value)] if i < 10 else value
    inside = (columns["f1"] == "a") & (columns["f10"] < -0.9)
    columns["y"] = (rng.random(rows) < np.where(inside, 0.3, 0.4)).astype(np.int8)
    return pl.DataFrame(columns)


def ours(table: pl.DataFrame, **options: Any) -> float:
    start = time.process_time()
    features = [name for name in table.columns if name != "y"]
    iso.discover(table, metric="selection_rate", prediction="y", features=features, rng=1, **options)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--peers", help="the Python interpreter that has the peers")
    asked = parser.parse_args()
    table = table_of(asked.rows)
    ours(table.head(10_000))  # imports
    for cuts in (8, 16):
        print(f"isonomy.discover, {asked.rows:,} rows, {cuts} cuts: {ours(table, search=iso.search(cuts=cuts)):.2f} s")
    part = table.head(PART)
    print(f"isonomy.discover, {PART:,} rows, 8 cuts, three conditions: {ours(part):.2f} s", flush=True)
    if asked.peers is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        part.write_csv(path)
        for name, script in PEERS.items():
            command = [asked.peers, "-c", START + script, str(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            except subprocess.TimeoutExpired:
                print(f"{name}, {PART:,} rows: stopped after 600 s")
                continue
            fault = done.stderr.strip().rpartition("\n")[2]
            seconds = f"{float(done.stdout):.2f} s" if done.returncode == 0 else f"could not run ({fault[:120]})"
            print(f"{name}, {PART:,} rows: {seconds}", flush=True)


if __name__ == "__main__":
    main()
