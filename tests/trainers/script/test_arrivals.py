"""A batch size that no reading of the source finds: where it arrives, what its file calls it, and what is asked where it isn't seen."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from launcher.adapter.recognised import Understood
from launcher.errors import BadInput
from launcher.ladder import build
from launcher.trainers.script import recognise
from launcher.trainers.script.adapter import ScriptAdapter
from tests.helpers.loader_scripts import HEAD, recipe_of

AT = HEAD.count("\n") + 1


def understood(source: str, *, value: str = "") -> Understood:
    Path("train.py").write_text(HEAD + source)
    found = recognise.understand([sys.executable, "train.py"], value=value)
    assert sorted(path.name for path in Path().iterdir() if path.suffix not in (".py", ".json")) == [], "a look leaves nothing"
    return found


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_value_that_is_passed_on_is_found_where_it_arrives() -> None:
    found = understood(
        "class Config:\n    batch_size = 16\n    epochs = 3\n"
        "def loaders(cfg): return DataLoader(data, cfg.batch_size * 1), DataLoader(data, 32)\n"
        "os.makedirs('out'); os.chdir('out'); open('../train.py').read()\n"  # goes to a folder of its own, and reads its source
        "first, second = loaders(Config())\nmodel = torch.nn.Linear(4, 2)\nwith torch.no_grad():\n    [model(x) for (x,) in second]\n"
        "train(first)"
    )
    belief = next(one for one in found.beliefs if one.wheel == "micro_batch")
    assert (belief.value, belief.spelling) == (16, f"loader:train.py:{AT + 3}")
    assert belief.source.startswith(f"worked out of train.py line {AT + 1}, train.py line {AT + 3}; it arrives at DataLoader")
    assert found.args["spelled"]["accumulation"] == "outside"


def test_what_arrives_with_a_word_for_accumulation_beside_it_is_set_as_it_is_bound() -> None:
    found = understood(
        "cfg = {'batch': 16, 'accum_steps': 2, 'epochs': 3}\n"
        "def loader(of): return DataLoader(data, of['batch'], shuffle=True)\ntrain(loader(cfg), cfg['accum_steps'])"
    )
    assert found.ask == {"micro_batch": 16, "accumulation": 2}
    assert found.args["spelled"] == {"micro_batch": "value:train.py:cfg['batch']", "accumulation": "value:train.py:cfg['accum_steps']"}
    assert found.args["lengths"] == {"value:train.py:cfg['epochs']": 3}


def test_a_value_of_a_file_that_the_command_does_not_name_is_set_at_the_loader() -> None:
    Path("base.json").write_text(json.dumps({"train": {"batch": 16}}))
    found = understood("cfg = json.load(open('base.json'))['train']\ntrain(DataLoader(data, cfg['batch'], shuffle=True))")
    assert found.ask["micro_batch"] == 16 and "config" not in found.args
    assert found.args["spelled"] == {"micro_batch": f"loader:train.py:{AT + 1}", "accumulation": "outside"}


def test_a_script_that_breaks_on_marked_numbers_is_looked_at_without() -> None:
    found = understood("def size(): return 16\nassert type(size()) is int\ntrain(DataLoader(data, batch_size=size()))")
    belief = next(one for one in found.beliefs if one.wheel == "micro_batch")
    assert (belief.value, belief.source) == (16, f"DataLoader, train.py line {AT + 2}")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "batch = 16\nfor _ in range(3):\n    torch.nn.Linear(4, 2)(torch.rand(batch, 4)).sum().backward()",
            "it trains without a DataLoader",
        ),
        ("class C: batch_size = 16\nsys.exit('no GPU here')", "ended before it trained (no GPU here)"),
    ],
)
def test_what_is_not_seen_is_asked_for_by_a_name_of_the_source(source: str, words: str) -> None:
    (doubt,) = [one for one in understood(source).doubts if one.wheel == "micro_batch"]
    name = "batch" if "batch =" in source else "C.batch_size"
    assert words in doubt.text and f'autofit run --set "{name}" -- ' in doubt.text


def test_values_in_one_dict_are_read_without_running_anything() -> None:
    source = (
        "CONFIG = {'batch': 16, 'accumulation_steps': 2, 'epochs': 3}\nraise SystemExit\nDataLoader(data, CONFIG['batch'], shuffle=True)"
    )
    found = understood(source)
    assert found.args["spelled"] == {
        "micro_batch": "value:train.py:CONFIG['batch']", "accumulation": "value:train.py:CONFIG['accumulation_steps']",
    }  # fmt: skip
    assert found.args["lengths"] == {"value:train.py:CONFIG['epochs']": 3}
    assert str(found.beliefs[0]).endswith(f"(train.py line {AT}: CONFIG['batch'] = 16)")


def test_a_value_that_a_person_names_is_set_as_it_is_bound() -> None:
    found = understood("CONFIG = {'batch': 16}\nraise SystemExit", value='CONFIG["batch"]')
    assert found.ask == {"micro_batch": 16, "accumulation": 1} and not found.doubts
    assert found.args["spelled"] == {"micro_batch": "value:train.py:CONFIG['batch']", "accumulation": "outside"}


@pytest.mark.parametrize(
    ("name", "found", "cure"),
    [
        ("batch", "no whole number of that name", f"Say one of these: train.py line {AT}: CONFIG['batch'] = 16"),
        ("size", "it stands in 2 places", f"train.py line {AT + 1}: size = 4; train.py line {AT + 2}: size = 8"),
        ("nothing.py:batch", "there is no file nothing.py", "Give its path"),
    ],
)
def test_a_name_that_means_nothing_or_two_things_is_refused(name: str, found: str, cure: str) -> None:
    with pytest.raises(BadInput) as refused:
        understood("CONFIG = {'batch': 16}\nsize = 4\nsize = 8", value=name)
    (fault,) = refused.value.faults
    assert found in fault.found and cure in fault.cure


@pytest.mark.parametrize(("given", "spelled"), [(2, "value:train.py:train(accumulation)"), (1, "outside")])
def test_a_script_that_steps_after_every_batch_keeps_what_it_works_out_of_its_batch(given: int, spelled: str) -> None:
    source = "B = 16\nlr = B / 100\nraise SystemExit\nDataLoader(data, batch_size=B, shuffle=True)"
    Path("train.py").write_text(HEAD.replace("accumulation=1", f"accumulation={given}") + source)
    found = recognise.understand([sys.executable, "train.py"])
    assert found.args["spelled"] == {"micro_batch": "outside" if given == 1 else "value:train.py:B", "accumulation": spelled}


def test_a_loader_is_found_by_the_text_of_its_line_when_the_script_was_edited() -> None:
    found = understood("def make(size): return DataLoader(data, batch_size=size)\nval = make(8)\nmade = make(16)\ntrain(made)\n")
    recipe = recipe_of(found)
    line = f"train.py:{AT}"
    assert recipe.trainer.args["lines"] == {line: "def make(size): return DataLoader(data, batch_size=size)"}

    def now(source: str) -> tuple[str, str]:
        """(the place where it is split, what is refused)"""
        Path("train.py").write_text(source)
        adapter = ScriptAdapter(recipe)
        split = adapter.line(build.ladder_of(adapter).rungs[1], run=Path("run")).split
        return split[2] if split is not None else "", " ".join(map(str, adapter.check()))

    source = Path("train.py").read_text()
    assert now(source) == (line, "")
    place, refused = now(f"# a line more\n{source}")
    assert (place, refused) == (f"train.py:{AT + 1}", "") and "was edited" in " ".join(ScriptAdapter(recipe).notes())
    launched = Path("train.py").stat().st_mtime
    assert f"found in train.py:{AT + 1} by its text" in ScriptAdapter(recipe).changed(since=launched, read={}).told[0]
    assert "edited since the launch: train.py" in ScriptAdapter(recipe).changed(since=launched - 1, read={}).told[0]
    assert (
        "isn't there once any more: the script was edited" in now(source.replace("batch_size=size)", "batch_size=size, num_workers=1)"))[1]
    )


CALL = "from rfdetr import RFDETRNano\nmodel = RFDETRNano()\n"


@pytest.mark.parametrize(
    ("source", "spelled"),
    [
        (
            f"{CALL}model.train(dataset_dir='d', batch_size=4, grad_accum_steps=2)\n",
            {"micro_batch": "value:train.py:model.train(batch_size)", "accumulation": "value:train.py:model.train(grad_accum_steps)"},
        ),
        (
            f"C = {{'batch': 4, 'times': 2}}\n{CALL}model.train('d', batch_size=C['batch'], grad_accum_steps=C['times'])\n",
            {"micro_batch": "value:train.py:C['batch']", "accumulation": "value:train.py:C['times']"},
        ),
        (f"{CALL}model.train('d', batch_size=4)\n", {}),
        (f"{CALL}model.train('d', batch_size=4, grad_accum_steps=2)\nmodel.train('d', batch_size=8, grad_accum_steps=1)\n", {}),
    ],
)
def test_a_librarys_call_that_is_given_its_accumulation_too_is_set_as_its_values_are_bound(source: str, spelled: dict[str, str]) -> None:
    Path("train.py").write_text(source)
    found = recognise.understand([sys.executable, "train.py"])
    assert {one.wheel: one.spelling for one in found.beliefs} == spelled
    if spelled:
        assert (found.ask["micro_batch"], found.ask["accumulation"]) == (4, 2)
        adapter = ScriptAdapter(recipe_of(found))
        lower = next(one for one in build.ladder_of(adapter).rungs if one.micro_batch == 2)
        assert lower.accumulation == 4 and list(adapter.line(lower, run=Path("run")).values.values()) == [2, 4]


def test_the_batch_of_keras_fit_is_refused_by_what_its_optimizer_is() -> None:
    Path("train.py").write_text("import keras\nmodel = keras.Sequential()\nmodel.fit(x, y, batch_size=64)\n")
    (doubt,) = recognise.understand([sys.executable, "train.py"]).doubts
    assert "the batch is 64 (batch_size of model.fit, train.py line 3)" in doubt.text and "--allow-batch" in doubt.text
