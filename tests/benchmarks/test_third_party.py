"""The table of other people's repositories is the one its rows make; nothing of theirs is run here."""

from __future__ import annotations

from benchmarks.common.rows import Row
from benchmarks.third_party import data, play, table
from benchmarks.third_party.cases import CASES


def test_the_table_in_the_docs_is_the_one_that_its_rows_make() -> None:
    text = table.TABLE.read_text(encoding="utf-8")
    made = text.partition(table.BEGIN)[2].partition(table.END)[0].strip()
    assert made == table.table(table.rows().values()).strip()


def done(**how: object) -> Row:
    return {"status": "done", "effective_batch": 64, "accumulation": 1, "said": "", **how}


def test_data_of_every_case_can_be_made() -> None:
    assert {case.data for case in CASES} <= data.KINDS.keys()


NANOGPT = next(case for case in CASES if case.name == "nanogpt")


def test_the_key_tells_what_was_misunderstood_or_not_said() -> None:
    proven = {"steps": "proven"}
    assert play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 21}, same_training=proven)) == ""
    assert "and 32 were understood" in play.differs(NANOGPT, done(effective_batch=32), done())
    assert "said nothing of it" in play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 10}, same_training=proven))
    told = {"steps": "differs by 11: the run made 10 optimizer steps"}
    assert play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 10}, same_training=told)) == ""
