"""The table of other people's repositories is the one its rows make; nothing of theirs is run here."""

from __future__ import annotations

from benchmarks.common.rows import Row
from benchmarks.third_party import play, table
from benchmarks.third_party.cases import CASES

ROW: Row = {
    "case": "mnist", "repo": "pytorch/examples", "command": "python main.py --batch-size 512", "status": "ok", "why": "", "touched": [],
    "understood": ["micro_batch 512 --batch-size (command line)", "accumulation 1 outside (no word for it was found)"],
    "asked": {"status": "done"},
    "tight": {
        "status": "done", "rung": {"micro_batch": 256}, "accumulation": 2, "effective_batch": 512, "outside": True,
        "trials": [{"verdict": "out_of_memory"}], "memory": {"run_peak_bytes": 99, "trial_peak_bytes": 100}, "steps": {"made": 40},
        "same_training": {**dict.fromkeys(table.PARTS, "proven"), "cure": {}, "apart": 1e-7},
    },
    "key": {"batch": 512, "steps": 40, "refuses": ""},
}  # fmt: skip


def test_the_table_in_the_docs_is_the_one_that_its_rows_make() -> None:
    text = table.TABLE.read_text(encoding="utf-8")
    made = text.partition(table.BEGIN)[2].partition(table.END)[0].strip()
    assert made == table.table(table.rows().values()).strip()


def test_a_row_tells_what_was_understood_and_what_came_of_it() -> None:
    line = table.table([ROW]).splitlines()[-1]
    assert "--batch-size 512, outside 1 | out_of_memory, then 256 x 2 from outside | 512 | proven, updates 1e-07 apart | 40 of 40 |" in line
    assert line.endswith("| done, 99% of its trial | untouched |")
    missing = {key: ROW[key] for key in ("case", "repo", "command")} | {"status": "not here", "why": "no pytorch/examples"}
    assert "not here: no pytorch/examples" in table.table([missing])


def done(**how: object) -> Row:
    return {"status": "done", "effective_batch": 64, "accumulation": 1, "said": "", **how}


NANOGPT = next(case for case in CASES if case.name == "nanogpt")


def test_the_key_tells_what_was_misunderstood_or_not_said() -> None:
    proven = {"steps": "proven"}
    assert play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 21}, same_training=proven)) == ""
    assert "and 32 were understood" in play.differs(NANOGPT, done(effective_batch=32), done())
    assert "said nothing of it" in play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 10}, same_training=proven))
    told = {"steps": "differs by 11: the run made 10 optimizer steps"}
    assert play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 10}, same_training=told)) == ""
