"""The time of ``import isonomy``, compared with ``import numpy`` in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys


def seconds(statement: str, repeats: int = 9) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(repeats)
    )
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    numpy, ours = seconds("import numpy"), seconds("import isonomy")
    print(f"import numpy {numpy * 1e3:.1f} ms, import isonomy {ours * 1e3:.1f} ms, ratio {ours / numpy:.2f}")


if __name__ == "__main__":
    main()
