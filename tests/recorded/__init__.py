"""Public calls with their recorded answers, to detect changes when the code is restructured."""
