"""What a script's source says of its batches beside its flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.trainers.script import recognise, source_values
from launcher.trainers.script.source_facts import loader_in_source

HEAD = "CONFIG = {'batch': 48}\nclass Config:\n    size = 48\n"


@pytest.mark.parametrize(
    ("source", "spelled"),
    [
        ("DataLoader(data, batch_size=CONFIG['batch'], shuffle=True)", "outside"),
        ("DataLoader(data, shuffle=True, batch_size=Config.size)\nval = DataLoader(other, 48)", "outside"),
        ("train_dataloader = DataLoader(a, batch_size=Config.size)\ntest_dataloader = DataLoader(b, batch_size=48)", "loader:train.py:4"),
        ("self.train_loader = DataLoader(a, 48, shuffle=False)", "loader:train.py:4"),
        ("train_dl = DataLoader(a, 48, shuffle=True)\nval_dl = DataLoader(b, 1, shuffle=True)", "outside"),
        ("loader = DataLoader(a, 48, shuffle=True)\nself.testloader = DataLoader(b, 1, shuffle=True)", "outside"),
    ],
)
def test_the_loader_that_trains_is_made_with_a_smaller_batch(
    source: str, spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HEAD + source)
    found = recognise.understand(["python", "train.py"])
    assert found.ask == {"micro_batch": 48, "accumulation": 1} and found.args["spelled"]["micro_batch"] == spelled


@pytest.mark.parametrize(
    "source",
    [
        "loader = DataLoader(data, batch_size=48)",  # which of several it might be isn't told by its name
        "a = DataLoader(x, 48, shuffle=True)\nb = DataLoader(x, 32, shuffle=True)",
        "train_a = DataLoader(x, 48)\ntrain_b = DataLoader(x, 48)",
        "train = DataLoader(x, batch_size=args.batch)",
        "train = DataLoader(x, batch_size=CONFIG['batch'] * n_gpus)",
        "train_dl = DataLoader(x, batch_size=config['size'], shuffle=True)\nval_dl = DataLoader(y, batch_size=1, shuffle=True)",
        "a = DataLoader(x, batch_size=config['size'], shuffle=True)\nb = DataLoader(y, batch_size=1, shuffle=True)",
        "train = DataLoader(x, shuffle=True)\nother = DataLoader(y, batch_size=8, shuffle=True)",
    ],
)
def test_what_is_not_clear_from_the_source_is_no_loader(source: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + source)
    assert loader_in_source(script) is None


def test_of_what_could_be_the_batch_a_1_is_named_last(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("val = DataLoader(y, batch_size=1)\ndef settings():\n    return {'batch_size': 8}\n")
    assert [one.value for one in source_values.likely(script)] == [8, 1]
