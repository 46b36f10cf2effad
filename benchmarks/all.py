"""Run all benchmark scripts, each with a time limit, and write benchmarks/RESULTS.md.

    python benchmarks/all.py [--rows 10000000] [--only scale peers] [--patience 4]

The time limits add up to ten minutes; a script that reaches its limit keeps what it has printed. On a busy machine,
``--patience`` multiplies them. Some scripts write their own section; for the others, the section is the printed output.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import results

HERE = Path(__file__).parent
# Time limit in seconds and arguments of each script; the limits add up to ten minutes. The scripts in ``OWN`` write
# their own sections. benchmarks/spark.py needs Java and is run by itself.
SCRIPTS: dict[str, tuple[int, list[str]]] = {
    "import_time": (15, []),
    "peers": (130, ["200"]),
    "groups": (160, []),
    "monitoring": (30, []),
    "projection": (30, ["--quick"]),
    "alternatives": (25, []),
    "effects": (40, ["--rows", "10000000"]),
    "scores": (40, []),
    "discover": (30, []),
    "scale": (100, []),
}
OWN = {"peers", "scale"}


def run(name: str, seconds: int, options: list[str]) -> None:
    """Run one script; its section reports if it was stopped or failed."""
    command = [sys.executable, str(HERE / f"{name}.py"), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        printed = done.stdout.strip()
        fault = "" if done.returncode == 0 else f"Failed: {done.stderr.strip().rpartition(chr(10))[2]}"
    except subprocess.TimeoutExpired as stopped:
        printed = stopped.stdout.decode().strip() if isinstance(stopped.stdout, bytes) else (stopped.stdout or "")
        fault = f"Stopped after {seconds} s."
    if name in OWN and not fault:
        print(printed, flush=True)
        return
    shown = [f"```text\n{printed}\n```"] if printed else []
    title = name.replace("_", " ").capitalize()
    results.write(title, " ".join(["python", f"benchmarks/{name}.py", *options]), *shown, *([fault] if fault else []))


def main() -> None:
    """Run the selected scripts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the largest table of scale.py")
    parser.add_argument("--only", nargs="*", choices=list(SCRIPTS), default=list(SCRIPTS))
    parser.add_argument("--patience", type=int, default=1, help="multiplies the time limits, on a busy machine")
    asked = parser.parse_args()
    for name in asked.only:
        seconds, options = SCRIPTS[name]
        seconds *= asked.patience
        if name == "scale":  # time grows in proportion to the rows
            seconds = max(seconds, seconds * asked.rows // 10_000_000)
            options = [str(asked.rows), str(seconds - 10)]
        print(f"== {name}, at most {seconds} s", flush=True)
        run(name, seconds, options)


if __name__ == "__main__":
    main()
