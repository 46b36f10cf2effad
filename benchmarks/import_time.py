"""Processor time of ``import isonomy``, compared with ``import numpy`` in the same run."""

from __future__ import annotations

import subprocess
import sys


def seconds(statement: str, repeats: int = 5) -> float:
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    runs = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats))
    return min(float(run.stdout) for run in runs)


if __name__ == "__main__":
    numpy, ours = seconds("import numpy"), seconds("import isonomy")
    print(f"import numpy {numpy * 1e3:.0f} ms, import isonomy {ours * 1e3:.0f} ms, ratio {ours / numpy:.2f}")
