"""The mathematics of the test: utilities, rules that find candidates, comparisons, and what they support."""
