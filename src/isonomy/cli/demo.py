"""The demo: a simulated lender, and an audit file that states the truth. Everything else is as in a real audit."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from isonomy.audit.starter import toml
from isonomy.audit.state import prepare, write

_AGE = "Age has no effect on approval or repayment: people who would repay are approved equally often at every age."
_OFFER = "The model's error is the same in every race: no race is promised too much relative to the others."

_SEXES = {"Female": "women", "Male": "men"}


def write_demo(folder: Path, rows: int, seed: int) -> Path:
    from isonomy import simulate
    from isonomy.simulate.lender import RACES

    prepare(folder)
    lender = simulate.lender(rows, seed=seed)
    lender.write(folder / "lender.parquet")
    known = lender.truth["facts"]
    facts = known | {
        "age": [_AGE],
        "offer": [_OFFER],
        "marginal": known["predictive_parity"][:1],
        "impact": known["flag"],
    }
    words = {
        "races": ", ".join(f'{race} = "{race} applicants"' for race in RACES),
        "pairs": "\n".join(
            f'"race={race} & sex={sex}" = "{race} {who}"' for race in RACES for sex, who in _SEXES.items()
        ),
    }
    truths = {
        name: "\n".join(["[", *(f"  {toml(sentence)}," for sentence in sentences), "]"])
        for name, sentences in facts.items()
    }
    file = folder / "audit.toml"
    template = Template((files("isonomy.cli") / "demo.toml").read_text(encoding="utf-8"))
    write(file, template.substitute(rows=f"{rows:,}", seed=seed, **words, **truths))
    return file
