"""Quick start: the five questions on a simulated lender whose bias is known. Runs cell by cell in any editor."""

# %% A table of decisions. Yours may be pandas, polars, pyarrow, DuckDB, Spark, or a path to parquet or csv.
import isonomy as iso

lender = iso.simulate.lender(rows=12_000, seed=1)
decisions = lender.frame()
print(decisions.head())

# %% 1. Which groups are treated differently, and is it more than chance?
flagged = iso.flag(
    decisions, metric="tpr", outcome="repaid", prediction="approved", groups=["race", "sex"], depth=2, tolerance=0.02
)
print(flagged.summary())
print(flagged.to_frame().select("group", "n", "disparity", "ci_low", "ci_high", "adjusted_pvalue", "verdict"))

# %% Do the groups differ at all?
print(iso.certify(decisions, metric="tpr", outcome="repaid", prediction="approved", groups="race").verdict)

# %% 2. How little would have to change for this classifier to look fair, and for whom?
moved = iso.project(
    decisions,
    outcome="repaid",
    prediction="approved",
    score="score",
    threshold=0.7,
    groups="race",
    criterion="equal_opportunity",
)
print(moved.summary())

# %% 3. Is there an alternative that is at least as accurate and less unequal?
alternative = iso.improvability(
    decisions,
    outcome="repaid",
    groups="race",
    status_quo="approved",
    candidate="candidate_approved",
    fairness="tpr",
    rng=1,
)
print(alternative.summary())

# %% 4. Does the uplift model get some groups' effects wrong?
uplift = iso.treatment_bias(
    decisions, effect="predicted_effect", treatment="offer", outcome="accepted", groups="age_band"
)
print(uplift.summary())

# %% 5. Does a score mean the same thing for every group?
parity = iso.predictive_parity(decisions, outcome="repaid", score="score", groups="race", user="user", rng=1)
print(parity.summary())

# %% The truth, which the simulation planted
for question, facts in lender.truth["facts"].items():
    print(question, *facts, sep="\n  ")

# %% Every result has an Altair chart, and can be stored as JSON
chart = flagged.plot()
again = iso.from_json(flagged.to_json())
assert again.verdict == flagged.verdict

# %% All of it as one audit with a report. From a file: `isonomy audit audit.toml`.
audit = iso.Audit.from_dict(
    {
        "title": "Quick start",
        "columns": {"outcome": "repaid", "prediction": "approved", "score": "score", "groups": ["race"]},
        "tests": [
            {"kind": "flag", "metric": "tpr", "tolerance": 0.02},
            {"kind": "project", "threshold": 0.7},
        ],
    },
    data=decisions,
)
result = audit.run(output="isonomy-report")
print(result.summary())
print(f"Report: {result.output}/report.html")

# %% In the test suite of a model
from isonomy.testing import assert_no_violation  # noqa: E402

try:
    assert_no_violation(flagged)
except AssertionError as error:
    print(str(error).splitlines()[0])
