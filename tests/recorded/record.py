"""Record the answers again: ``PYTHONPATH=tests python -m recorded.record [topic ...]``."""

from __future__ import annotations

import sys
import time

from recorded import recording
from recorded.topics import TOPICS


def main(topics: list[str]) -> None:
    """Make every call and write the answers."""
    for topic in topics or list(TOPICS):
        started, slow, answers = time.process_time(), [], {}
        for name, call in TOPICS[topic].items():
            begun = time.process_time()
            answers[name] = recording.answer(call)
            slow.append((time.process_time() - begun, name))
            refused = "error" in answers[name]
            if refused != (recording.REFUSES in name):
                print(f"{name}: {'an error: ' + answers[name]['text'] if refused else 'no error'}")
        recording.write(topic, answers)
        size, seconds = recording.path_of(topic).stat().st_size, time.process_time() - started
        print(f"{topic}: {len(answers)} calls, {seconds:.1f} s, {size / 1e6:.2f} MB", flush=True)
        print(*(f"    {took:5.2f} s  {name}" for took, name in sorted(slow, reverse=True)[:3]), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
