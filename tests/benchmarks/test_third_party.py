"""The table of other people's repositories is the one its rows make; nothing of theirs is run here."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.rows import Row
from benchmarks.third_party import play, table, weights
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


def test_rows_are_kept_in_the_order_of_the_cases_and_the_newest_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for name, status in (("imagenet", "ok"), ("mnist", "fault"), ("mnist", "ok")):
        table.keep({**ROW, "case": name, "status": status}, path)
    assert [(name, row["status"]) for name, row in table.rows(path).items()] == [("mnist", "ok"), ("imagenet", "ok")]


def test_a_repository_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    row = play.tried(CASES[0], tmp_path, "python", tmp_path / "work")
    assert row["status"] == "not here"


def test_a_repository_is_found_by_its_name_with_or_without_its_owner(tmp_path: Path) -> None:
    for place in ("examples", "pytorch+examples", "pytorch/examples"):
        script = tmp_path / place / "mnist" / "main.py"
        script.parent.mkdir(parents=True)
        script.write_text("")
        assert play.unpacked(CASES[0], tmp_path) == tmp_path / place
        script.unlink()


def test_weights_that_are_others_than_the_plain_commands_have_to_be_told() -> None:
    apart = {**ROW, "weights": {"apart": 3e-2, "tensors": 9}}
    assert "3e-02 from the plain command's, and nothing was said" in play.silent(apart) and not play.silent(ROW)
    assert not play.silent({**ROW, "weights": {"apart": 2e-7, "tensors": 9}})
    told = {**apart["tight"], "same_training": {**apart["tight"]["same_training"], "samples": "differs by 0.5"}}
    assert not play.silent({**apart, "tight": told})
    assert "no model.pt was left" in play.silent({**ROW, "weights": {"why": "no model.pt was left"}})


def test_weights_are_held_against_one_another_whatever_file_they_are_in(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    model = torch.nn.Linear(4, 3)
    save_file(model.state_dict(), tmp_path / "one.safetensors")
    torch.save(model, tmp_path / "two.pt")
    torch.save({"state_dict": {name: one * 1.01 for name, one in model.state_dict().items()}, "step": 3}, tmp_path / "three.ckpt")
    one, two, three = (weights.held(tmp_path / name) for name in ("one.safetensors", "two.pt", "three.ckpt"))
    assert weights.apart(one, two) == 0.0 and abs(weights.apart(one, three) - 0.01) < 1e-6
    assert weights.apart(one, {"other": torch.zeros(3)}) == float("inf")


def done(**how: object) -> Row:
    return {"status": "done", "effective_batch": 64, "accumulation": 1, "said": "", **how}


NANOGPT = next(case for case in CASES if case.name == "nanogpt")
REFUSED = next(case for case in CASES if case.refuses)


def test_the_key_tells_what_was_misunderstood_or_not_said() -> None:
    proven = {"steps": "proven"}
    assert play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 21}, same_training=proven)) == ""
    assert "and 32 were understood" in play.differs(NANOGPT, done(effective_batch=32), done())
    assert "said nothing of it" in play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 10}, same_training=proven))
    told = {"steps": "differs by 11: the run made 10 optimizer steps"}
    assert play.differs(NANOGPT, done(), done(accumulation=2, steps={"made": 10}, same_training=told)) == ""


def test_the_key_tells_what_must_be_refused_and_why() -> None:
    right = {"status": "no_rung_fits", "said": "no", "same_training": {"refused": f"it is {REFUSED.refuses}"}}
    assert play.differs(REFUSED, done(), right) == ""
    assert play.differs(REFUSED, done(), {**right, "same_training": {"refused": "nobody knows"}}) == "no"
    assert "should have been refused" in play.differs(REFUSED, done(), done(accumulation=2))
