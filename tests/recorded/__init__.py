"""Public calls with their recorded answers, to detect changes when the code is restructured."""

import os

os.environ["ISONOMY_KEY"] = "recorded"  # fingerprints are the same in every run
