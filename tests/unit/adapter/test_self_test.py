"""What an installed package can do is found by a self-test, once per version; odd installations are named with what can be done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from launcher.adapter import self_test as capabilities
from launcher.config.schema import LadderRules, Recipe, TrainerRules, WheelRule
from launcher.errors import BadInput
from launcher.ladder.build import WheelSpec, ladder_of
from launcher.ladder.rungs import Ladder
from launcher.trainers.script.adapter import ScriptAdapter

SELF_TEST = "an_autofit_self_test"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    forget()
    yield
    forget()


def forget() -> None:
    """As a new launch begins."""
    capabilities.installed.cache_clear()
    capabilities._tested.cache_clear()


def put(site: Path, version: str | None = "1.2.3", *, said: str = "", direct_url: str | None = None) -> None:
    """A package ``oddly`` at ``site``, with metadata where it has a version."""
    (site / "oddly").mkdir(parents=True, exist_ok=True)
    (site / "oddly" / "__init__.py").write_text(said, encoding="utf-8")
    if version is not None:
        info = site / f"oddly-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: oddly\nVersion: {version}\n", encoding="utf-8")
        (info / "RECORD").write_text("oddly/__init__.py,,\n", encoding="utf-8")
        if direct_url is not None:
            (info / "direct_url.json").write_text(json.dumps({"url": direct_url, "vcs_info": {"vcs": "git"}}), encoding="utf-8")


def self_test(site: Path, program: str) -> None:
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{SELF_TEST}.py").write_text(program, encoding="utf-8")


def prepared(folder: Path) -> Mapping[str, str]:
    return {}


def found(*checked: str) -> capabilities.Capabilities:
    answer = capabilities.capabilities_of("oddly", module=SELF_TEST, checked=checked or ("9.9.9",), prepare=prepared)
    assert answer is not None
    return answer


COUNTING = """
import json, sys
from pathlib import Path
count = Path(__file__).with_name("count")
count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
Path(sys.argv[1]).write_text(json.dumps({"checkpointing": "it doesn't", "accumulation": ""}))
"""


class TestSelfTest:
    def runs(self, tmp_path: Path) -> int:
        count = tmp_path / "site" / "count"
        return int(count.read_text()) if count.exists() else 0

    @pytest.fixture
    def again(self, tmp_path: Path) -> Callable[[], int]:
        def ask() -> int:
            forget()
            assert found().failed == {"checkpointing": "it doesn't"}
            return self.runs(tmp_path)

        put(tmp_path / "site")
        self_test(tmp_path / "site", COUNTING)
        return ask

    def test_it_runs_once_for_a_version_and_is_kept(self, again: Callable[[], int], tmp_path: Path) -> None:
        assert (again(), again()) == (1, 1)
        assert (tmp_path / "cache" / "autofit" / "capabilities-oddly-1.2.3.json").is_file()

    @pytest.mark.parametrize("torn", ["", '{"key": ', "[]", '{"key": "k"}', '{"key": 1, "failed": {"a": 3}}'])
    def test_a_torn_file_is_made_anew(self, again: Callable[[], int], tmp_path: Path, torn: str) -> None:
        assert again() == 1
        (tmp_path / "cache" / "autofit" / "capabilities-oddly-1.2.3.json").write_text(torn, encoding="utf-8")
        assert (again(), again()) == (2, 2)

    def test_another_self_test_is_run_again(self, again: Callable[[], int], tmp_path: Path) -> None:
        assert again() == 1
        self_test(tmp_path / "site", f"{COUNTING}\n# another text")
        assert again() == 2

    def test_a_cache_folder_that_cannot_be_written_only_costs_time(
        self, again: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert (again(), again()) == (1, 2)

    def test_a_version_that_the_test_suite_runs_against_needs_none(self, again: Callable[[], int], tmp_path: Path) -> None:
        assert found("1.2.3").failed == {} and self.runs(tmp_path) == 0

    @pytest.mark.parametrize(
        ("program", "words"),
        [
            ("import no_such_module_at_all", "its self-test failed: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
            ("import os; os._exit(7)", "its self-test failed: exit status 7"),
            ("import json, sys; open(sys.argv[1], 'w').write(json.dumps({'import': 'ImportError: half a package'}))", "half a package"),
        ],
        ids=["raises", "dies", "says-so"],
    )
    def test_a_package_that_cannot_be_used_at_all_is_refused_with_one_that_can(self, tmp_path: Path, program: str, words: str) -> None:
        put(tmp_path / "site")
        self_test(tmp_path / "site", program)
        with pytest.raises(BadInput) as refused:
            capabilities.required(found("2.0.0"), checked=("2.0.0",))
        (fault,) = refused.value.faults
        assert fault.found.startswith("oddly 1.2.3 can't be used here: ") and words in fault.found
        assert "pip install oddly==2.0.0" in fault.cure and "autofit's own tests" in fault.cure

    @pytest.mark.parametrize(
        ("known", "words"),
        [
            ({"1.0.0": "torch 2.8.0", "1.2.0": "torch 2.4.1", "2.0.0": "torch 3"}, "pip install oddly==1.2.0 (was run with torch 2.4.1;"),
            ({"1.2.3": "torch 2.8.0", "1.2.4": "torch 2.8.0"}, "pip install --force-reinstall oddly==1.2.3"),
        ],
        ids=["another", "itself-but-whole"],
    )
    def test_the_version_that_a_refusal_names_is_the_nearest_that_was_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: dict[str, str], words: str
    ) -> None:
        put(tmp_path / "site")
        self_test(tmp_path / "site", "import no_such_module_at_all")
        monkeypatch.setattr(capabilities, "ran", lambda name: known)
        with pytest.raises(BadInput) as refused:
            capabilities.required(found("3.0.0"), checked=("3.0.0",))
        assert words in refused.value.faults[0].cure

    def test_near_is_counted_from_the_front_and_the_later_of_two_is_taken(self) -> None:
        assert capabilities.nearest("8.4.3", ["8.3.253", "8.4.190", "8.5.0"]) == "8.4.190"
        assert capabilities.nearest("8.3.50", ["8.3.0", "8.3.100"]) == "8.3.100"
        assert capabilities.nearest("8.2.9", ["8.3.0", "8.4.0"]) == "8.3.0"
        assert capabilities.nearest("9.0.0", ["8.3.0", "8.4.190", "8.4.150"]) == "8.4.190"
        assert capabilities.nearest("5.1.0.dev0+cu128", ["5.0", "5.1"]) == "5.1"


class TestLadder:
    """A wheel that the installed version can't turn stays as asked; where it is asked to be turned, that is a fault."""

    def ladder(self, asked: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> Ladder:
        monkeypatch.setattr(ScriptAdapter, "unavailable", lambda self: {"checkpointing": "layers ran once"}, raising=False)
        spec = WheelSpec(type=bool, rule=WheelRule(values=(True,)), help="for the test")
        monkeypatch.setattr(ScriptAdapter, "wheels", {**ScriptAdapter.wheels, "checkpointing": spec})
        rules = LadderRules(order=("checkpointing", "micro_batch"))
        recipe = Recipe(
            name="a",
            ask={"micro_batch": 4, **asked},
            ladder=rules,
            trainer=TrainerRules(adapter="script", args={"command": "python train.py"}),
        )
        return ladder_of(ScriptAdapter(recipe))

    def test_it_leaves_the_ladder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rungs = self.ladder({"checkpointing": False}, monkeypatch).rungs
        assert {rung.values["checkpointing"] for rung in rungs} == {False} and len(rungs) == 3

    def test_what_is_asked_and_cannot_be_had_is_a_fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(BadInput) as refused:
            self.ladder({"checkpointing": True}, monkeypatch)
        (fault,) = refused.value.faults
        assert fault.key == "ask.checkpointing" and "layers ran once" in fault.found


class TestOddInstallations:
    def odd(self, tmp_path: Path, **package: str | None) -> str:
        put(tmp_path / "site", **package)  # type: ignore[arg-type]
        one = capabilities.installed("oddly")
        assert one is not None
        return "\n".join(one.odd)

    def test_a_release_is_nothing_to_speak_of(self, tmp_path: Path) -> None:
        assert self.odd(tmp_path) == ""

    def test_a_fork_is_named_by_where_it_comes_from(self, tmp_path: Path) -> None:
        assert "oddly 1.2.3 comes from https://example.org/fork.git, not from a release" in self.odd(
            tmp_path, direct_url="https://example.org/fork.git"
        )

    @pytest.mark.parametrize("version", ["2.0.0rc1", "2.0.0.dev3", "2.0b2"])
    def test_a_pre_release_is_named(self, tmp_path: Path, version: str) -> None:
        assert f"oddly {version} is a pre-release" in self.odd(tmp_path, version=version)

    def test_a_release_built_by_somebody_is_no_pre_release(self, tmp_path: Path) -> None:
        assert self.odd(tmp_path, version="2.15.0+cu128a1b2") == ""

    def test_a_package_without_metadata_is_asked_for_its_version(self, tmp_path: Path) -> None:
        assert "oddly 4.5.6 lies in " in self.odd(tmp_path, version=None, said='__version__ = "4.5.6"\n')

    def test_one_that_says_no_version_anywhere_is_refused_with_the_cure(self, tmp_path: Path) -> None:
        put(tmp_path / "site", None)
        with pytest.raises(BadInput) as refused:
            capabilities.installed("oddly")
        assert "pip install --force-reinstall oddly" in refused.value.faults[0].cure

    def test_of_two_on_the_path_the_one_that_counts_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path / "other", "1.0.0")
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "other")])
        said = self.odd(tmp_path)
        assert f"oddly is on the path 2 times (1.0.0, 1.2.3): 1.2.3 in {tmp_path / 'site' / 'oddly'} is the one that counts" in said

    def test_an_odd_one_is_tested_even_where_its_version_is_known(self, tmp_path: Path) -> None:
        put(tmp_path / "site", direct_url="file:///somewhere")
        self_test(tmp_path / "site", COUNTING)
        assert found("1.2.3").tested
        assert "comes from" in capabilities.notes(found("1.2.3"), {"checkpointing": "it doesn't"})[0]

    def test_one_that_is_not_there_is_left_to_whoever_needs_it(self) -> None:
        assert capabilities.capabilities_of("no_such_package_at_all", module=SELF_TEST, checked=("1",), prepare=prepared) is None
        assert capabilities.required(None, checked=("1",)) == {} and capabilities.notes(None, {}) == []
