"""What a launch of somebody's repository did otherwise than told; nothing of theirs is run here."""

from __future__ import annotations

from benchmarks.common.rows import Row
from benchmarks.third_party import play
from benchmarks.third_party.cases import CASES


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
