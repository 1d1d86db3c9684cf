"""What a torn, corrupt or empty checkpoint is known by, without loading it."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest

from autofit_launcher.common import checkpoint_files


def saved(path: Path) -> Path:
    """As torch.save writes: a zip of uncompressed records with their checksums."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data/0", bytes(range(256)) * 100)
    return path


def safetensors(path: Path, *, size: int = 64) -> Path:
    header = json.dumps({"w": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return path


def test_one_flipped_bit_is_seen(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.pt")
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    assert "corrupt" in checkpoint_files.fault(path)


@pytest.mark.parametrize("part", [0, 3, 1000, -1])
def test_a_torn_file_is_seen(tmp_path: Path, part: int) -> None:
    path = saved(tmp_path / "a.pt")
    path.write_bytes(path.read_bytes()[:part])
    if part != 3:  # three bytes of any file could be anything
        assert checkpoint_files.fault(path)


def test_a_folder_is_as_whole_as_its_worst_file(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    assert "empty" in checkpoint_files.fault(folder)
    safetensors(folder / "model.safetensors")
    (folder / "trainer_state.json").write_text('{"global_step": 5}')
    assert checkpoint_files.fault(folder) == ""
    (folder / "trainer_state.json").write_text('{"global_st')
    assert "trainer_state.json" in checkpoint_files.fault(folder)
    (folder / "trainer_state.json").unlink()
    safetensors(folder / "model.safetensors", size=60)
    assert "bytes" in checkpoint_files.fault(folder)


def test_a_file_that_the_disk_never_got_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(bytes(4096))
    assert "zeros" in checkpoint_files.fault(tmp_path / "a.ckpt")


@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_is_whole_or_has_no_end(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "last.pt"
    data = pickle.dumps({"epoch": 3, "weights": [0.5] * 100, "names": ["ä"] * 3}, protocol=protocol)
    path.write_bytes(data)
    assert checkpoint_files.fault(path) == ""
    for size in (1, 2, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        assert "no whole pickle" in checkpoint_files.fault(path)


def test_text_in_the_place_of_a_checkpoint_is_seen_and_what_only_the_script_can_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    path.write_text("torn\n")
    assert "no whole pickle" in checkpoint_files.fault(path)
    path.write_bytes(gzip.compress(b"a form of the script's own"))
    assert checkpoint_files.fault(path) == ""
    (tmp_path / "notes.ckpt").write_text("model_checkpoint_path: model-5")
    assert checkpoint_files.fault(tmp_path / "notes.ckpt") == ""


def folder(place: Path, *names: str) -> Path:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        saved(place / name)
    return place


LAST = ("custom_checkpoint_*.pkl", "random_states_*.pkl")


def test_what_lacks_the_last_file_of_its_kind_was_never_saved_to_its_end(tmp_path: Path) -> None:
    halved = folder(tmp_path / "step_4", "model.safetensors", "optimizer.bin")
    assert "custom_checkpoint_*.pkl is missing" in checkpoint_files.unfinished(halved, of_trainer=False, ends_with=LAST)
    assert checkpoint_files.unfinished(halved, of_trainer=False) == "", "nobody says that it is accelerate's"
    whole = folder(tmp_path / "step_5", "model.safetensors", "optimizer.bin", "random_states_0.pkl", "custom_checkpoint_0.pkl")
    assert checkpoint_files.unfinished(whole, ends_with=LAST) == ""
    own = folder(tmp_path / "step_6", "model.safetensors", "vocabulary.txt")
    assert checkpoint_files.unfinished(own, ends_with=LAST) == "", "a folder of the script's own beside those"


def test_a_folder_of_distributed_checkpoint_has_its_metadata_last(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.distributed import checkpoint

    checkpoint.save({"weight": torch.ones(4)}, checkpoint_id=tmp_path / "step_3" / "model")
    assert checkpoint_files.unfinished(tmp_path / "step_3") == ""
    (tmp_path / "step_3" / "model" / ".metadata").unlink()
    assert ".metadata is missing" in checkpoint_files.unfinished(tmp_path / "step_3")


def test_a_folder_that_lacks_what_the_others_have_is_torn_whatever_numbers_are_in_the_names(tmp_path: Path) -> None:
    names = "weights.npy", "state/rank_0.bin", "state/rank_1.bin", "log_{}.txt"
    first, second = (folder(tmp_path / f"{step}", *(name.format(step) for name in names)) for step in (1, 2))
    torn, fewer = folder(tmp_path / "3", "weights.npy", "log_3.txt"), folder(tmp_path / "4", "weights.npy", "state/rank_0.bin", "log_4.txt")
    every = [fewer, torn, second, first]
    assert "state/rank_N.bin" in checkpoint_files.lacking(torn, every)
    assert [checkpoint_files.lacking(path, every) for path in (first, second, fewer)] == ["", "", ""]
    assert checkpoint_files.lacking(torn, [torn, first]) == "", "the first alone may have had something of its own"
    assert checkpoint_files.lacking(torn, [torn]) == "" == checkpoint_files.lacking(saved(tmp_path / "a.pt"), every), (
        "nothing to compare with"
    )
