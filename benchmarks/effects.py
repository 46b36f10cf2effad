"""The published study's scale: 37 million sessions, 200 groups, 10 splits, both swaps, 50 replicates, all strategies.

    python benchmarks/effects.py [--rows 37000000]

Writes simulated sessions to parquet in a temporary folder (deleted at the end), then measures in one run, each in a
separate process: a bare polars scan with a grouped sum of the same columns, `treatment_bias`, and
`evaluate_corrections`. Prints wall time and processor time (which other programs do not affect), their ratios to the
bare scan, and peak memory. Finally, it compares the parquet path with the in-memory path on a sample of the rows: the
numbers must agree to 1e-9.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROLES = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
GROUPS, SEED = 200, 20


def design(rows: int):
    """Two hundred groups; the predicted effects of every tenth are wrong."""
    import isonomy as iso

    error = {f"g{i:03d}": 0.1 if i % 20 else -0.1 for i in range(0, GROUPS, 10)}
    return iso.simulate.uplift(rows, SEED, groups=GROUPS, baseline=0.1, error=error, noise=0.05)


def bare(path: str) -> None:
    import polars as pl

    columns = ["treatment", "outcome", "effect"]
    pl.scan_parquet(path).group_by("group").agg(pl.len(), pl.col(columns).sum()).collect(engine="streaming")


def bias(path: str) -> None:
    import isonomy as iso

    result = iso.treatment_bias(path, **ROLES)
    print(f"  groups with a shown bias: {sum(v == 'violation' for v in result.verdicts)} (planted: {GROUPS // 10})")


def corrections(path: str) -> None:
    import isonomy as iso

    result = iso.evaluate_corrections(path, **ROLES, rng=1)
    for name, rms in zip(result.strategies, result.bias_rms, strict=True):
        print(f"  remaining bias, root mean square: {name:23} {rms:.4f}")


TASKS = {"bare": bare, "bias": bias, "corrections": corrections}


def measure(task: str, path: Path) -> dict[str, float]:
    """Run one task in a separate process; times exclude starting Python and importing."""
    command = [sys.executable, __file__, "--task", task, "--path", str(path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    print("\n".join(lines[:-1]), end="\n" if len(lines) > 1 else "")
    return json.loads(lines[-1])


def run_task(task: str, path: str) -> None:
    import polars as pl

    import isonomy as iso

    iso.treatment_bias, pl.scan_parquet  # noqa: B018  (loaded before the clock starts)
    before, worked = time.perf_counter(), time.process_time()
    TASKS[task](path)
    seconds, processor = time.perf_counter() - before, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(json.dumps({"seconds": seconds, "processor": processor, "peak_gb": peak}))


def agreement(folder: Path, rows: int = 500_000) -> float:
    """Largest relative difference between the parquet path and the in-memory path, same seed."""
    import isonomy as iso

    simulated = design(rows)
    path = simulated.write(folder / "sample.parquet")
    options = {**ROLES, "method": iso.heldout(splits=3, resamples=20), "rng": 5}
    one = iso.evaluate_corrections(path, **options)
    two = iso.evaluate_corrections(simulated.columns, **options)
    pairs = [(getattr(one, k), getattr(two, k)) for k in ("factor", "error", "bias", "error_pvalue", "bias_pvalue")]
    return max(float(np.nanmax(np.abs(a - b) / np.maximum(np.abs(a), 1e-3))) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=37_000_000)
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--path")
    options = parser.parse_args()
    if options.task:
        run_task(options.task, options.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        before = time.perf_counter()
        path = design(options.rows).write(Path(folder) / "sessions.parquet")
        size = path.stat().st_size / 1024**3
        print(
            f"{options.rows:,} rows, {GROUPS} groups, {size:.2f} GB of parquet in {time.perf_counter() - before:.0f} s"
        )
        measured = {}
        for task in TASKS:
            measured[task] = min(
                (measure(task, path) for _ in range(2 if task == "bare" else 1)), key=lambda m: m["seconds"]
            )
        for task, found in measured.items():
            ratio, worked = (found[name] / measured["bare"][name] for name in ("seconds", "processor"))
            print(
                f"{task:12} {found['seconds']:8.2f} s   {ratio:6.1f} x the bare scan   processor "
                f"{found['processor']:8.2f} s   {worked:6.1f} x   peak {found['peak_gb']:.2f} GB"
            )
        print(f"largest relative difference between parquet and memory on a sample: {agreement(Path(folder)):.1e}")


if __name__ == "__main__":
    main()
