"""Write the JSON schema that ships with the package: python tests/audit/write_schema.py"""

from __future__ import annotations

import json
from pathlib import Path

import isonomy.audit

if __name__ == "__main__":
    target = Path(isonomy.audit.__file__).parent / "schema.json"
    target.write_text(json.dumps(isonomy.audit.schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
