"""Levers, each from an asked setting that really runs out of memory to the end of the run with the lever: on a CPU's budget, and the
optimizer's states in the host's memory on a card that isn't there.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.forecast import gpu_catalogue
from launcher.ladder.verdict import Kind
from launcher.pretended import cards
from tests.helpers.command_line import answer, autofit
from tests.helpers.hf_data import maker
from tests.helpers.hf_data import sums as sums
from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WIDE = {"vocab_size": 2000, "hidden_size": 320, "intermediate_size": 960, "num_hidden_layers": 6}
MANY_WORDS = {"vocab_size": 16_000, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
DEEP = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 512, "num_hidden_layers": 8}


def make(place: Path, shape: dict[str, int], longest: int) -> Path:
    """Texts of up to ``longest`` words, and a language model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    rng = random.Random(0)
    place.mkdir()
    texts = [" ".join(rng.choice(WORDS) for _ in range(longest - number)) for number in range(12)]
    for name, part in (("train", texts), ("validation", texts[-3:])):
        (place / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in part), encoding="utf-8")
    words = maker("text").tokenizer(texts)
    torch.manual_seed(0)
    config = LlamaConfig(
        **shape, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, bos_token_id=None,
        eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(place / "model")
    words.save_pretrained(place / "model")
    return place


FULL = {"vocab_size": 8000, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 8}
CASES: dict[str, tuple[dict[str, int], int, dict[str, Any], list[Any], int]] = {
    "adafactor": (WIDE, 40, {"optimizer": "adamw_torch_fused"}, ["adafactor"], 150),
    "adamw_8bit": (WIDE, 40, {"optimizer": "adamw_torch_fused"}, ["adamw_8bit", "adafactor"], 150),
    "freeze": (WIDE, 40, {"freeze": 0}, [3], 150),
    "loss_chunks": (MANY_WORDS, 500, {"loss_chunks": 1}, [8], 130),
    "precision": (DEEP, 500, {"precision": "fp32", "micro_batch": 4}, ["bf16"], 240),  # of one row a CPU's buffers take what bf16 saves
}
"""What is turned -> model, words, asked, the lever's values, MiB."""


@pytest.mark.parametrize("case", CASES)
def test_what_runs_out_of_memory_fits_with_a_lever_that_is_named_with_its_update_s_difference(case: str, tmp_path: Path) -> None:
    if case == "adamw_8bit":
        pytest.importorskip("bitsandbytes")
    shape, longest, asked, values, mib = CASES[case]
    lever, before = next(iter(asked.items()))
    data = make(tmp_path / "data", shape, longest)
    (tmp_path / "recipes").mkdir()
    ask = {"model": f"{data}/model", "micro_batch": 1, "accumulation": 1, "sequence_length": 512, "val_micro_batch": 1, **asked}
    recipe = {
        "data": str(data), "ask": ask, "device": {"kind": "cpu", "memory": mib * 2**20},
        "trainer": {"adapter": "transformers", "task": "text", "args": {"max_steps": 3, "learning_rate": 1e-3, "save_strategy": "no"}},
        "ladder": {"order": [lever], "wheels": {lever: {"values": values}}},
    }  # fmt: skip
    (tmp_path / "recipes" / "lever.yaml").write_text(f"# @package _global_\n{json.dumps(recipe)}\n", encoding="utf-8")
    done = autofit("train", "recipe=lever", "--json", cwd=tmp_path, timeout=3000)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    trials = [(one["rung"][lever], one["verdict"], round(one["peak_bytes"] / 2**20)) for one in record["trials"]]
    same = record["same_training"]
    print(f"\n{case}: {trials}, run {record['memory']['run_peak_bytes'] / 2**20:.0f} MiB, {same['update']}")
    assert [kind for _, kind, _ in trials] == [Kind.OUT_OF_MEMORY, Kind.FITS] and record["rung"][lever] == values[0]
    assert record["given_up"] == {lever: {"asked": before, "used": values[0]}} and record["results"]["steps"] == 3
    update, exact = same["update"], lever == "loss_chunks"
    assert (update["gradient_apart"] < 1e-4) == (lever not in ("precision", "freeze")) and (update["apart"] < 1e-3) == exact
    assert 0 < update["apart"] < 1.2 and 0.5 < update["cosine"] < 1.0 + 1e-9
    assert same["gradient"] == "proven" if exact else f"(cosine {update['cosine']:.3f})" in same["gradient"]


# ----------------------------------------------------------------------------------------------------------------------
# Played, on a card that isn't there


def played(argv: list[str], *, cwd: Path, memory: int, code: int = 0) -> subprocess.CompletedProcess[str]:
    (model,) = gpu_catalogue.named(["t4"])
    with cards.played(cards.Cards(model=model, usable_bytes=memory)) as environment:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    assert done.returncode == code, done.stderr[-3000:]
    return done


def written(place: Path, asked: Mapping[str, Any]) -> Path:
    """A recipe ``offload``, whose data and model lie beside it."""
    data = make(place / "data", FULL, 40)
    (place / "recipes").mkdir()
    args = {"max_steps": 4, "learning_rate": 1e-3, "save_steps": 2, "warmup_steps": 2, "report_to": "none"}
    ask = {"model": f"{data}/model", "micro_batch": 1, "accumulation": 1, "sequence_length": 128, "val_micro_batch": 1, **asked}
    recipe = {
        "data": str(data), "ask": ask, "device": {"kind": "cuda"}, "trainer": {"adapter": "transformers", "task": "text", "args": args},
        "trial": {"proof_timeout_s": 1200},
        "ladder": {"order": ["offload"], "wheels": {"offload": {"values": ["optimizer"]}}},
    }  # fmt: skip
    (place / "recipes" / "offload.yaml").write_text(f"# @package _global_\n{json.dumps(recipe)}\n", encoding="utf-8")
    return place


@needs_a_pretended_card
def test_states_in_the_host_s_memory_make_what_fails_fit_and_change_neither_a_weight_nor_a_checkpoint(tmp_path: Path) -> None:
    """39.7 M weights in fp32: 151 MiB, as much of gradients, 303 MiB of AdamW's states, of which a step has 64 MiB there at once."""
    from safetensors.torch import load_file

    written(tmp_path, {"offload": "none"})
    words = [sys.executable, "-m", "launcher", "train", "recipe=offload", "--json"]
    record = answer(played(words, cwd=tmp_path, memory=1100 * 2**20))
    trials = [(one["rung"]["offload"], one["verdict"], one["phase"]) for one in record["trials"]]
    assert trials == [("none", Kind.OUT_OF_MEMORY, "train"), ("optimizer", Kind.FITS, "done")]
    assert record["given_up"] == {"offload": {"asked": "none", "used": "optimizer"}} and record["results"]["steps"] == 4
    assert record["same_training"]["verdict"] == "same" and record["same_training"]["update"]["apart"] < 1e-6
    report = json.loads((Path(record["trials"][1]["folder"]) / "report.json").read_text(encoding="utf-8"))
    used = {use["phase"]: use["allocated_bytes"] for use in report["uses"]}
    weights = report["facts"]["memory_parts"]["weights"]
    assert report["facts"]["memory_parts"]["states"] < 1000, "counts of steps alone are on the card"
    assert max(used.values()) < 2 * weights + 70 * 2**20 and used["resume"] <= used["train"]
    assert record["memory"]["run_peak_bytes"] <= record["memory"]["trial_peak_bytes"]

    def native(into: str, offload: str, *more: str) -> Path:
        """The run's own command in a larger card, with another value of the wheel; how it ended."""
        argv = [word for word in shlex.split(record["command"]) if "=" not in word or word.startswith("-")]
        for flag, value in (("--output_dir", str(tmp_path / into)), ("--offload", offload)):
            argv[argv.index(flag) + 1] = value
        played([*argv, *more], cwd=tmp_path, memory=2**31)
        return tmp_path / into

    plain = native("plain", "none")
    from_there = native("from_there", "none", "--resume_from_checkpoint", str(Path(record["results"]["output_dir"]) / "checkpoint-2"))
    from_plain = native("from_plain", "optimizer", "--resume_from_checkpoint", str(plain / "checkpoint-2"))
    asked = load_file(plain / "model.safetensors")
    for folder in (Path(record["results"]["output_dir"]), from_there, from_plain):
        found = load_file(folder / "model.safetensors")
        assert all(bool((asked[name] == found[name]).all()) for name in asked), folder


SAYS_AND_DOES_NOT = """
import sys
from pathlib import Path
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.machine import devices
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trial import trial
from launcher.trial.job import Job
from tests.helpers.hf_data import recipe

class Ignored(TransformersAdapter):
    def _arguments(self, rung, *, on_cpu):
        return {key: value for key, value in super()._arguments(rung, on_cpu=on_cpu).items() if key != "offload"}

asked = recipe(sys.argv[1], "text", ask={"offload": "optimizer", "micro_batch": 1}, device={"kind": "cuda"})
adapter = Ignored(asked)
budget, folder = devices.find("cuda", headroom=0.1), RunFolder.create(Path(sys.argv[2]), "case")
job = Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=folder)
verdict = trial.run(job, job.ladder.asked).verdict
print(verdict.kind.value, verdict.why)
"""


@needs_a_pretended_card
def test_states_that_stayed_on_the_card_are_no_fit(sums: Path, tmp_path: Path) -> None:
    done = played([sys.executable, "-c", SAYS_AND_DOES_NOT, str(sums), str(tmp_path)], cwd=tmp_path, memory=2**31)
    assert "altered the trainer ran offload=none instead of optimizer" in done.stdout, done.stdout
