"""Mistakes of a command line or of a recipe's file: a fault with its place, in words and in JSON, and never a traceback of Hydra's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from autofit_launcher.cli import main, suggestions
from autofit_launcher.common import activity
from autofit_launcher.config.hydra_overrides import for_hydra
from autofit_launcher.config.recipe_files import recipe_files
from autofit_launcher.config.schema import Recipe
from tests.architecture.rooms import Tree


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(activity, "SILENT_S", 600.0)  # on a busy machine composing would be told, too
    (tmp_path / "recipes").mkdir()
    return tmp_path


@pytest.mark.parametrize(("text", "said"), [
    (b"# @package _global_\nsummary: x\nask: {micro_batch: 4}\nask: {micro_batch: 5}\n", "recipes/mine.yaml:4: duplicate key ask"),
    (b"# @package _global_\nask:\n\tmicro_batch: 4\n", "recipes/mine.yaml:3: character '\\t' that cannot start any token"),
    (b'ask: {micro_batch: "${oops"}\n', "recipes/mine.yaml: no viable alternative at input '${oops'"),
    (b'ask: {micro_batch: "${oops}"}\n', "recipes/mine.yaml: ask.micro_batch: Interpolation key 'oops' not found"),
    (b"- a\n- b\n", "recipes/mine.yaml: it holds a list"), (b"", "recipes/mine.yaml: ask.micro_batch: no value is set"),
    (b"summary: \xe9t\xe9\n", "recipes/mine.yaml: byte 9 is not UTF-8"),
    (b"defaults:\n  - override /ladder: keep_qualty\n", "recipes/mine.yaml: ladder: there is no ladder 'keep_qualty'. Did you mean"),
    (b"a: " + b"[" * 900 + b"]" * 900, "recipes/mine.yaml: it is nested too deeply"),
    (b"ask: !!python/object/apply:os.system [false]\n", "recipes/mine.yaml:1: could not determine a constructor"),
    (b"ask: {micro_batch: 4}\nbatch: 16\n", "recipes/mine.yaml:2: batch: no such key (value 16). Known here: ask, data, device"),
])  # fmt: skip
def test_a_mistake_in_a_recipe_is_told_with_its_file_and_line(text: bytes, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("recipes/mine.yaml").write_bytes(text)
    assert main.run(["ladder", "recipe=mine", "--json"]) == 1
    out, err = capfd.readouterr()
    assert err.startswith(said), err
    assert "Traceback" not in err and "hydra.cc" not in err and "HYDRA_FULL_ERROR" not in err
    fault = only_fault_of(out)
    assert fault["where"] and fault["found"] and fault["cure"]


def only_fault_of(out: str) -> dict[str, Any]:
    (line,) = out.splitlines()
    said = json.loads(line)
    assert said["status"] == "bad_input"
    (fault,) = said["faults"]
    assert isinstance(fault, dict)
    return fault


@pytest.mark.parametrize("made", ["folder", "loop", "gone"])
def test_a_recipe_that_is_no_file_is_told_so(made: str, capfd: pytest.CaptureFixture[str]) -> None:
    place = Path("recipes/mine.yaml")
    place.mkdir() if made == "folder" else place.symlink_to("mine.yaml" if made == "loop" else "nowhere.yaml")
    for words in (["ladder", "recipe=mine"], ["show", "mine"]):
        assert main.run(words) == 1
        err = capfd.readouterr().err
        assert "recipes/mine.yaml: " in err and "Traceback" not in err
    assert main.run(["recipes"]) == 0
    assert "(can't be read" in capfd.readouterr().out


@pytest.mark.parametrize(("words", "said"), [
    (("watch", "x" * 5000), "File name too long"), (("stop", "../x"), "no run of autofit's"), (("resume", ""), "no run is named"),
    (("runs", "nowhere"), "it is not a folder"), (("trial", "recipe=yolo_demo", "rung=1.5"), "rung: found 1.5"),
    (("plan", "recipe=yolo_demo", "gpu=../t4"), "the catalogue has no card '../t4'"), (("ladder", "recipe="), "there is no recipe ''"),
    (("ladder", "recipe=yolo_demo", "ask="), "ask: found ''"), (("ladder", "recipe=yolo_demo", "~ask"), "ask: no value is set"),
    (("ladder", "recipe=yolo_demo", ""), "'' is no KEY=VALUE"), (("ladder", "recipe=yolo_demo", "device.headroom=10%"), "valid number"),
    (("ladder", "-m", "recipe=yolo_demo,nope"), "there is no recipe 'nope'"), (("--nope",), "unknown verb '--nope'"),
    (("ladder",), "You must specify 'recipe'"),
])  # fmt: skip
def test_nothing_that_is_typed_ends_in_a_traceback(words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(list(words)) == 1
    err = capfd.readouterr().err
    assert said in err and "Traceback" not in err


@pytest.mark.parametrize(("word", "said"), [
    ("batch=16", "Did you mean ask.micro_batch=16?"), ("devcie.memory=8GiB", "Did you mean device.memory=8GiB?"),
    ("share=true", "Did you mean device.share=true?"), ("epochs=3", "a trainer's own arguments are trainer.args.NAME"),
    ("ask.lr0=0.1", "The trainer's own arguments stand under trainer.args."), ("device=0,cpu", "there is no device '0,cpu'."),
    ("device.cards=-1", "It is all, a number of cards (2), or which ones ([0,1], or UUIDs)"),
    ("yolo_demo", "'yolo_demo' is no KEY=VALUE. Did you mean recipe=yolo_demo?"), ("=3", "'=3' is no KEY=VALUE"),
    ("--recipe=mine", "there is no flag --recipe. KEY=VALUE stand without"), ("--cfg=nonsense", "invalid choice: 'nonsense'"),
    ("ask.micro_batch=4,8", "To sweep over it, add --multirun"), ("hydra.nonsense=1", "Could not override 'hydra.nonsense'"),
    ("--config-dir=/nowhere", "Additional config directory '/nowhere' not found"), ("--resolve", "The --resolve flag can only be used"),
])  # fmt: skip
def test_a_mistake_on_the_command_line_says_what_was_meant(word: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(["ladder", "recipe=yolo_demo", word, "--json"]) == 1
    out, err = capfd.readouterr()
    assert err.startswith("command line: ") and said in err
    assert "Traceback" not in err and "HYDRA_FULL_ERROR" not in err and "To append to your config use +batch" not in err
    assert only_fault_of(out)["where"] == "command line"


def composed(*words: str) -> Recipe:
    (draft,) = suggestions.drafts(words, program="autofit")
    assert draft.recipe is not None and draft.faults == ()
    return draft.recipe


@pytest.mark.parametrize(("words", "kind", "index"), [
    (("device=gpu",), "cuda", 0), (("device=0",), "cuda", 0), (("device=cuda:1",), "cuda", 1), (("device=gpu:2",), "cuda", 2),
    (("device=cuda",), "cuda", 0), (("device=cpu",), "cpu", 0), (("device.kind=gpu", "device.index=3"), "cuda", 3),
])  # fmt: skip
def test_a_device_is_named_as_people_name_it(words: tuple[str, ...], kind: str, index: int) -> None:
    device = composed("recipe=yolo_demo", *words).device
    assert (device.kind, device.index) == (kind, index)


def test_in_a_multirun_several_cards_are_a_launch_each() -> None:
    found = suggestions.drafts(["-m", "recipe=yolo_demo", "device=0,cuda:1"], program="autofit")
    assert [(one.recipe.device.kind, one.recipe.device.index) for one in found if one.recipe] == [("cuda", 0), ("cuda", 1)]


@pytest.mark.parametrize(("words", "said"), [
    (("train", "--", "python", "t.py", "--batch-size", "64"), "autofit train takes no command. Did you mean autofit run -- ...?"),
    (("python3.11", "t.py"), "A command of yours stands behind autofit run --."),
    (("run", "--", "nopython", "x"), "there is no program 'nopython' that can be started"), (("logs", "--trial"), "--trial has no value"),
])  # fmt: skip
def test_words_for_another_verb_are_told_so(words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(list(words)) == 1
    err = capfd.readouterr().err
    assert said in err and "Traceback" not in err
    assert len(err.splitlines()) == 1, "what else could be said of it would hide it"


def test_even_a_fault_of_autofit_s_own_ends_in_json(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(draft: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("autofit_launcher.engine.prepare.ladder_of", broken)
    assert main.run(["ladder", "recipe=yolo_demo", "--json"]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out) == {"status": "stopped", "error": "RuntimeError: a bug"} and "Traceback" in err and "in broken" in err


def test_every_recipe_that_is_shipped_composes_without_a_fault() -> None:
    names = sorted(recipe_files())
    found = suggestions.drafts(["-m", f"recipe={','.join(names)}", "data=mine"], program="autofit")
    assert [(one.recipe is not None, one.faults) for one in found] == [(True, ())] * len(names) and len(names) > 10


def test_a_group_on_the_command_line_wins_over_the_recipe_s_own_keys() -> None:
    own, typed = composed("recipe=yolov8x_a100"), composed("recipe=yolov8x_a100", "ladder=keep_quality")
    assert own.ladder.order == ("micro_batch", "image_size", "checkpointing", "multi_scale", "model")
    assert typed.ladder.order == ("micro_batch", "checkpointing", "image_size", "model")
    assert typed.ladder.wheels == own.ladder.wheels and own.ladder.wheels, "of these the group says nothing"
    assert composed("recipe=yolov8x_a100", "ladder=default").ladder.order == ("micro_batch", "image_size", "checkpointing", "model")


def test_a_group_on_the_command_line_changes_only_what_it_is_about() -> None:
    """Naming the group that the recipe has chosen changes nothing; naming another keeps the recipe's budget."""
    assert composed("recipe=yolo_demo", "device=cpu") == composed("recipe=yolo_demo")
    assert composed("recipe=separator_demo", "trainer=script") == composed("recipe=separator_demo")
    on_a_card = composed("recipe=yolo_demo", "device=cuda").device
    assert (on_a_card.kind, on_a_card.memory, on_a_card.headroom) == ("cuda", 720 * 2**20, None)


def test_the_last_word_is_a_group_s_in_a_multirun_and_in_what_cfg_shows_too(capfd: pytest.CaptureFixture[str]) -> None:
    found = suggestions.drafts(["-m", "recipe=yolov8x_a100,yolo_demo", "ladder=keep_quality,default"], program="autofit")
    quality, default = ("micro_batch", "checkpointing", "image_size", "model"), ("micro_batch", "image_size", "checkpointing", "model")
    assert [draft.recipe.ladder.order for draft in found if draft.recipe] == [quality, default, quality, default]
    main.run(["train", "recipe=yolov8x_a100", "ladder=keep_quality", "--cfg", "job"])
    shown = capfd.readouterr().out
    assert shown.index("- checkpointing") < shown.index("- image_size") and "typed" not in shown


def test_hydra_is_known_in_three_modules() -> None:
    """Composing (with its errors), its recipes and its grammar: the rest of the launcher could be fed by something else."""
    house = Tree(Path(main.__file__).parents[2])
    knowing = {module for module, imports in house.imports.items() if any(one.name.split(".")[0] == "hydra" for one in imports)}
    assert knowing == {f"autofit_launcher.config.{name}" for name in ("compose", "recipe_store", "hydra_overrides")}


@pytest.mark.parametrize("word", ["device=0,1", "device=cuda:0,1", "device=[0,1]", "device.cards=[0,1]"])
def test_several_cards_are_understood_as_people_write_them(word: str) -> None:
    assert composed("recipe=yolo_demo", word).device.cards == (0, 1)
    assert composed("recipe=yolo_demo", "device.cards=all").device.cards == "all"


GROUPS = ("ladder", "device", "recipe")
ODD = "éß字 '\"#([{}])=,~:;$%&*?!@|<>+-\\^`./\t019nulltrue"


def as_hydra_reads(word: str) -> object:
    return OverridesParser.create().parse_override(for_hydra(word, groups=GROUPS, sweeping=False)).value()


def is_hydras_own(text: str) -> bool:
    """What even a path may say to Hydra: null, and a text in Hydra's quotes; and what a shell would have made of ``~``."""
    return text == "null" or text.startswith("~") or (len(text) > 1 and text[0] == text[-1] and text[0] in "'\"")


@settings(max_examples=600, deadline=None)
@given(st.text(alphabet=ODD, max_size=14))
@example("l'été (2)/data #1, v=2.yaml")
@example("\\'")
@example("3")
@example("1e5")
@example("true")
@example("choice(a,b)")
def test_a_path_is_byte_for_byte_what_was_typed(text: str) -> None:
    assume(not is_hydras_own(text))
    for key in ("data", "run.root", "ask.model"):
        assert as_hydra_reads(f"{key}={text}") == text


def test_a_path_comes_through_composing_as_it_was_typed() -> None:
    for text in ("l'été (2)/data #1, v=2.yaml", "a\\"):
        found = composed("recipe=yolo_demo", f"data={text}", f"run.root={text}", f"ask.model={text}")
        assert (found.data, found.run.root, found.ask["model"]) == (text, text, text)


def test_a_tilde_at_the_beginning_is_the_home_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/zoé")
    assert as_hydra_reads("data=~/my data.yaml") == "/home/zoé/my data.yaml"
    assert as_hydra_reads("run.root=~") == "/home/zoé"
    assert as_hydra_reads("data=~other/x~/y") == "~other/x~/y"


def test_what_is_said_to_hydra_on_purpose_stays_so() -> None:
    assert as_hydra_reads("data=null") is None
    assert as_hydra_reads("data='a b'") == "a b"
    assert as_hydra_reads("ask.micro_batch=16") == 16 and as_hydra_reads("trainer.args.lr0=1e-3") == 0.001
    assert as_hydra_reads("ladder.order=[micro_batch,model]") == ["micro_batch", "model"]


def swept(word: str) -> list[str]:
    override = OverridesParser.create().parse_override(for_hydra(word, groups=GROUPS, sweeping=True))
    assert override.is_sweep_override()
    return [OverridesParser.create().parse_override(f"key={one}").value() for one in override.sweep_string_iterator()]


def test_commas_part_the_values_of_a_multirun() -> None:
    assert swept("ask.micro_batch=4,8") == [4, 8]
    assert swept("ladder=default,keep_quality") == ["default", "keep_quality"]
    assert swept("ask.model=a (1).pt,l'été.pt") == ["a (1).pt", "l'été.pt"]
    assert swept("trainer.args.project=é,b") == ["é", "b"]
