"""Adult: an income classifier trained on one file without race and sex, and its scores on the other."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.append(str(Path(__file__).resolve().parents[1]))
from public_data import find, write

NAMES = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours", "country", "income",
)  # fmt: skip
NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours"]
WORDS = ["workclass", "occupation"]


def read(name: str, skip: int = 0) -> pl.DataFrame:
    """Read a file without header, with a space after each comma and, in the test file, a period after each label."""
    text = dict.fromkeys(NAMES, pl.String)
    table = pl.read_csv(find(name), has_header=False, schema=text, skip_rows=skip)
    table = table.with_columns(pl.all().str.strip_chars(" .")).drop_nulls()  # the files end with an empty line
    high = (pl.col("income") == ">50K").cast(pl.Int8).alias("high")
    return table.with_columns(pl.col(NUMBERS).cast(pl.Float64), high)


if __name__ == "__main__":
    train, test = read("adult.data"), read("adult.test", skip=1)
    encode = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), WORDS))
    encode.set_output(transform="default")
    model = make_pipeline(encode, LogisticRegression(max_iter=500))
    columns = NUMBERS + WORDS
    model.fit(train.select(columns), train["high"].to_numpy())
    score = model.predict_proba(test.select(columns))[:, 1]
    people = test.select("race", "sex", "age", "hours", "education_num", pl.col("high").alias("income_above_50k"))
    decisions = pl.Series("predicted_above_50k", (score >= 0.5).astype("int8"))
    write(people.with_columns(pl.Series("score", score), decisions), __file__)
