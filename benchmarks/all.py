"""Run all benchmark scripts and write benchmarks/RESULTS.md.

    python benchmarks/all.py [--rows 10000000] [--only scale peers]

They take less than ten minutes on a quiet machine with two cores. Some scripts write their own section; for the others,
the section is the printed output. A script that fails, or does not end in half an hour, says so there, and so does the
exit status. benchmarks/spark.py needs Java and is run by itself.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import results

HERE = Path(__file__).parent
SCRIPTS = ("import_time", "peers", "groups", "growth", "monitoring", "projection", "alternatives", "discover", "scale")
OWN = {"peers", "scale"}  # these write their own section
PATIENCE = 1_800  # seconds


def run(name: str, options: list[str]) -> str:
    """Run one script; what went wrong, or nothing."""
    command = [sys.executable, str(HERE / f"{name}.py"), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        printed, fault = done.stdout, f"Failed: {done.stderr.strip().rpartition(chr(10))[2]}" if done.returncode else ""
    except subprocess.TimeoutExpired as stopped:
        printed, fault = (stopped.stdout or b"").decode(), f"Stopped after {PATIENCE} s."
    if name in OWN and not fault:
        print(printed, flush=True)
    else:
        title, asked = name.replace("_", " ").capitalize(), " ".join(["python", f"benchmarks/{name}.py", *options])
        results.write(title, asked, f"```text\n{printed.strip()}\n```", *([fault] if fault else []))
    return fault


def main() -> int:
    """Run the selected scripts; 1 if one of them did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the largest table of scale.py")
    parser.add_argument("--only", nargs="*", choices=SCRIPTS, default=SCRIPTS)
    asked = parser.parse_args()
    lines, faults = [], []
    for name in asked.only:
        print(f"== {name}", flush=True)
        clock, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        fault = run(name, [str(asked.rows)] if name == "scale" else [])
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        lines.append([name, f"{processor:.0f}", f"{time.perf_counter() - clock:.0f}", fault])
        faults += [fault] * bool(fault)
    total = (sum(int(line[i]) for line in lines) for i in (1, 2))
    lines.append(["all", *map(str, total), ""])
    head = ["script", "processor s", "s by the clock", ""]
    results.write("Time", "python benchmarks/all.py", results.table(head, lines))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
