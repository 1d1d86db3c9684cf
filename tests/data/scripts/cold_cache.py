"""Fills a cache as Hugging Face's libraries do: folders from Python, the data from native code, and asks how much room there is."""

import os
import sqlite3
from pathlib import Path

from usual import Usual

usual = Usual()
cache = Path(os.environ.get("HF_DATASETS_CACHE") or Path(os.environ["HF_HOME"]) / "datasets")
assert (cache / "warm.txt").read_text() == "theirs"
(cache / "json" / "0.0.0.incomplete").mkdir(parents=True)
assert os.statvfs(cache / "json").f_bavail > 0
with sqlite3.connect(cache / "json" / "0.0.0.incomplete" / "data.db") as base:
    base.execute("create table numbers (number integer)")
(cache / "json" / "0.0.0.incomplete").rename(cache / "json" / "0.0.0")
assert (cache / "json" / "0.0.0" / "data.db").stat().st_size > 0
usual.one_pass()
