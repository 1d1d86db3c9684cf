"""What a person types reaches the recipe as it stands: a path byte for byte, a number as a number, a sweep as a sweep."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from autofit_launcher.cli import suggestions
from autofit_launcher.config.hydra_overrides import for_hydra

GROUPS = ("ladder", "device", "recipe")
ODD = "éß字 '\"#([{}])=,~:;$%&*?!@|<>+-\\^`./\t019nulltrue"


def as_hydra_reads(word: str, *, sweeping: bool = False) -> object:
    return OverridesParser.create().parse_override(for_hydra(word, groups=GROUPS, sweeping=sweeping)).value()


def is_hydras_own(text: str) -> bool:
    """What even a path may say to Hydra: null, and a text in Hydra's quotes; and what a shell would have made of ``~``."""
    return text == "null" or text.startswith("~") or (len(text) > 1 and text[0] == text[-1] and text[0] in "'\"")


@settings(max_examples=600, deadline=None)
@given(st.text(alphabet=ODD, max_size=14))
@example("l'été (2)/data #1, v=2.yaml")
@example("\\")
@example("\\'")
@example("a\n")
@example(" leading and trailing ")
@example("3")
@example("1e5")
@example("true")
@example("choice(a,b)")
@example("[a]")
def test_a_path_is_byte_for_byte_what_was_typed(text: str) -> None:
    assume(not is_hydras_own(text))
    for key in ("data", "run.root", "ask.model"):
        assert as_hydra_reads(f"{key}={text}") == text


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet=ODD, min_size=1, max_size=14))
@example("l'été (2)/data #1, v=2.yaml")
@example("a\\")
def test_a_path_comes_through_composing_as_it_was_typed(text: str) -> None:
    assume(not is_hydras_own(text) and "${" not in text and text != "???")  # OmegaConf's own words: an interpolation, a missing value
    (draft,) = suggestions.drafts(["recipe=yolo_demo", f"data={text}", f"run.root={text}", f"ask.model={text}"], program="autofit")
    assert draft.recipe is not None and draft.faults == ()
    assert (draft.recipe.data, draft.recipe.run.root, draft.recipe.ask["model"]) == (text, text, text)


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
    assert swept("data=choice(a,b)") == ["a", "b"]
    assert swept("data='a,b',c") == ["a,b", "c"]
