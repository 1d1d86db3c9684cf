"""What others wrote (a recipe, a run folder, a log, a history) runs nothing, holds nothing up, and reaches no terminal raw."""

from __future__ import annotations

import json
import os
import pty
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from autofit_launcher.adapter.commands import Command
from autofit_launcher.cli import logs, main, suggestions
from autofit_launcher.common import activity, procfs
from autofit_launcher.common.words import masked, visible
from autofit_launcher.config.recipe import Provenance, as_yaml, checked
from autofit_launcher.errors import BadInput
from autofit_launcher.full_run import run
from autofit_launcher.history import kept_fits, owner, runs, submission
from autofit_launcher.history.records import CheckpointRecord, Record
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.inside import caches
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.machine import slurm
from autofit_launcher.page import page
from tests.helpers.run_folders import ended

ROOT = Path("runs/autofit")
SECRET = "s3cr3t-of-mine"
STEERS = "\x1b]0;title\x07\x1b[2J\x1b[6n\x9b31m\u202e\u061c"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(activity, "SILENT_S", 600.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    (tmp_path / "recipes").mkdir()
    return tmp_path


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The words by which a command line is refused, in two seconds and without a traceback."""
    began = time.process_time()
    assert main.run(list(words)) == 1
    err = capfd.readouterr().err
    assert "Traceback" not in err and time.process_time() - began < 5
    return err


# -- recipes

EVIL = "hydra: {callbacks: {x: {_target_: autofit_launcher.machine.process.output_of, argv: [touch, pwned]}}}\n"
BOMB = "".join(f"  k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'] * 9)}]\n" for n in range(12))


@pytest.mark.parametrize(("text", "said"), [
    (f"summary: x\n{EVIL}", ":2: hydra: no such key"),
    ('"h\\x79dra": {run: {dir: pwned}}\n', ":1: hydra: no such key"),
    ("_target_: os.system\n", ":1: _target_: no such key"), ("ask: &a {hydra: {run: {dir: pwned}}}\n<<: *a\n", "hydra: no such key"),
    ("defaults: [/../../evil/evil, _self_]\n", "is no option of a group"),
    ("defaults:\n  - override /hydra/launcher: joblib\n", "is no option of a group"),
    ("defaults:\n  - /device@hydra.callbacks.x: cpu\n", "is no option of a group"),
    (f"ask:\n{BOMB}", "it unfolds to more than a recipe holds"), ("ask: &a [*a]\n", "it unfolds to more"),
    ("ask: {x: " + "y" * (1 << 20) + "}\n", "it unfolds to more"), ("ask: !!python/object/new:os.system [touch pwned]\n", "constructor"),
    ("defaults: [mine, _self_]\n", "it takes itself in"), ("ask: {micro_batch: '${oc.decode:${oc.env:HF_TOKEN}}'}\n", "ask.micro_batch"),
])  # fmt: skip
def test_a_recipe_holds_keys_of_the_schema_and_nothing_else(text: str, said: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("recipes/mine.yaml").write_text(text)
    (here / "evil").mkdir()
    (here / "evil" / "evil.yaml").write_text(EVIL)
    before = sorted(here.rglob("*"))
    assert said in refused(capfd, "ladder", "recipe=mine")
    assert main.run(["recipes"]) == 0
    main.run(["train", "--cfg", "job", "recipe=mine"])
    assert sorted(here.rglob("*")) == before


def test_a_recipe_that_hides_a_built_in_one_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    Path("recipes/yolo_demo.yaml").write_text("ask: {micro_batch: 4}\n")
    assert main.run(["ladder", "recipe=yolo_demo"]) == 0
    assert "recipes/yolo_demo.yaml is taken in place of the built-in recipe" in capfd.readouterr().out


WATCHED = """
import os, sys
seen = []
def hook(event, args):
    writes = event == "open" and (any(c in str(args[1]) for c in "wxa+") or int(args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if writes or event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system", "os.rename", "os.remove", "os.chmod",
                           "os.symlink", "os.link", "os.kill", "socket.connect") or (event == "os.mkdir" and args[0] != "."):
        seen.append((event, args))
from autofit_launcher.cli import logs, main, suggestions
sys.dont_write_bytecode = True
sys.addaudithook(hook)
for line in sys.stdin.read().splitlines():
    main.run(line.split())
    if seen:
        sys.exit(f"{line}: {seen}")
"""


def test_verbs_that_run_nothing_start_no_process_and_make_no_file(here: Path) -> None:
    run = ended(ROOT, "failed")
    (run / "run.stdout.log").write_text("CUDA out of memory\n")
    Path("recipes/mine.yaml").write_text("prepare: [touch, pwned]\ndata: nowhere\nask: {micro_batch: 4}\n")
    lines = ["ladder recipe=yolo_demo", "ladder recipe=mine", "recipes", "show mine", "schema", "agents", "fits", "runs", "runs --peaks",
             "watch --json", "watch", "logs", "explain", "stop x", "--help", "ladder --help all",
             "train --cfg job recipe=mine", "ladder -m recipe=yolo_demo,mine"]  # fmt: skip
    before = sorted(here.rglob("*"))
    argv, environment = [sys.executable, "-c", WATCHED], {**os.environ, "PYTHONPATH": "/"}
    done = subprocess.run(argv, input="\n".join(lines), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(here.rglob("*")) == before


def test_what_a_launch_writes_is_its_users_alone(here: Path) -> None:
    folder = RunFolder.create(ROOT, "demo")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    kept_fits.of("mine", "d" * 64).write(taken_by="x")
    assert stat.S_IMODE(kept_fits.folder().stat().st_mode) == 0o700


@pytest.mark.parametrize(("line", "offered"), [
    ("recipe=", "recipe=mine"), ("recipe=mine trainer.args.", "trainer.args.b="), ("recipe=mine trainer.args.b=", ""),
])  # fmt: skip
def test_completion_offers_no_word_that_a_shell_would_run(
    line: str, offered: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("$(touch pwned)", "a;touch pwned", "a\nb", "\x1b[2J", "`x`", "mine"):
        Path(f"recipes/{name}.yaml").write_text("ask: {}\ntrainer: {args: {$(touch pwned): 1, '`x`': 2, b: $(touch pwned), '\\e[2J': 3}}\n")
    monkeypatch.setenv("COMP_LINE", f"autofit ladder {line}")
    assert main.run(["-sc", "query=bash"]) == 0
    words = capfd.readouterr().out.split()
    assert offered in [*words, ""] and all(shlex.quote(word) == word for word in words)


STRANGERS = "open('pwned', 'w')\n"


@pytest.mark.parametrize("words", [["ladder", "recipe=yolo_demo"], ["report"], ["-sc", "query=bash"]])
@pytest.mark.parametrize("path", [".", ""])
def test_nothing_of_the_working_folder_is_run(words: list[str], path: str, here: Path) -> None:
    ended(ROOT, "done")
    for name in ("hydra_plugins/x/__init__", "jinja2/__init__", "torch", "strangers"):
        Path(f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        Path(f"{name}.py").write_text(STRANGERS)
    Path("x-1.dist-info").mkdir()
    Path("x-1.dist-info/entry_points.txt").write_text("[autofit.adapters]\nultralytics = strangers:x\n[autofit.recipes]\nx = strangers:x\n")
    environment = {**os.environ, "PYTHONPATH": path, "COMP_LINE": "autofit ladder recipe=yolo_demo ask."}
    done = subprocess.run([sys.executable, "-m", "autofit_launcher", *words], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and not Path("pwned").exists()


@pytest.mark.parametrize(
    "words", [["copy", "pipe"], ["copy", "yolo_demo", "link"], ["copy", "yolo_demo", ".."], ["copy", "yolo_demo", "a;b"]]
)
def test_a_copy_is_a_new_file_of_a_name_that_is_found(words: list[str], here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("recipes/pipe.yaml")
    Path("recipes/link.yaml").symlink_to("../elsewhere.yaml")
    before = sorted(here.rglob("*"))
    refused(capfd, "recipes", "copy", *words)
    assert sorted(here.rglob("*")) == before


def test_secrets_of_the_environment_stay_interpolations(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_PAT", "another-of-mine")
    monkeypatch.setenv("DATABASE", "db://me:hunter2@host")
    args = {
        "a": "${oc.env:HF_TOKEN}", "b": ["--d ${data} --t=${oc.env:HF_TOKEN}"], "c": r"\${oc.env:HF_TOKEN}", "d": "${oc.env:HOME}",
        "n": "HF_TOKEN", "e": "${oc.env:${trainer.args.n}}", "f": "${oc.env:'HF_TOKEN'}",
        "g": "${oc.env:GITHUB_PAT}", "h": "${oc.env:DATABASE}",
        "i": r"x\\${data}", "j": r"\${oc.env:HOME} ${trainer.args.a}", "k": "${oc.env:NOT_SET_TOKEN,none}",
    }  # fmt: skip
    Path("recipes/mine.yaml").write_text(yaml.safe_dump({"data": "here", "ask": {"micro_batch": 4}, "trainer": {"args": args}}))
    (draft,) = suggestions.drafts(["recipe=mine"], program="autofit")
    assert draft.recipe is not None
    given = draft.recipe.trainer.args
    assert given["a"] == SECRET and given["b"] == [f"--d here --t={SECRET}"] and given["c"] == args["a"]
    written = as_yaml(draft.recipe)
    assert SECRET not in written and "hunter2" not in written and "another" not in written and args["a"] in written
    again = checked(yaml.safe_load(written), Provenance()).recipe
    assert again is not None and again.trainer.args == given and as_yaml(again) == written
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("HOME", "/another")
    gone = checked(yaml.safe_load(written), Provenance())
    assert gone.recipe is None and "HF_TOKEN" in gone.faults[0].found, "a run doesn't go on with another training"


def test_a_recipe_that_is_made_of_a_command_with_a_secret_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    Path("t.py").write_text("")
    assert main.run(["init", "--", "python", "t.py", "--batch-size", "8", "--password", "hunter2"]) == 0
    assert "looks like a secret" in capfd.readouterr().err and "hunter2" in Path("recipes/t.yaml").read_text()


def test_an_endless_word_is_refused_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    began, values = time.process_time(), ",".join(map(str, range(9_999)))
    assert main.run(["ladder", "recipe=yolo_demo", f"ladder.wheels.micro_batch.values=[{values}]"]) == 1
    assert "Write it in a recipe's file." in capfd.readouterr().err and time.process_time() - began < 5


# -- words of others


@pytest.mark.parametrize(("words", "shown"), [
    ("t.py --password hunter2 --lr 3", "t.py --password **** --lr 3"), ("--hf-token='hunter 2' x", "--hf-token=**** x"),
    ("'--api_key=hunter 2' x", "'--api_key=****' x"), ("WANDB_API_KEY=hunter2 t.py", "WANDB_API_KEY=**** t.py"),
    ("['--apiKey', 'hunter2']", "['--apiKey', ****]"), ("https://me:hunter2@host/x", "https://****@host/x"),
    (f"x={SECRET}", "x=****"), ("hf_abcdefghijklmnopqrstuvwxyz", "****"), ("--token ${oc.env:HF_TOKEN}", "--token ${oc.env:HF_TOKEN}"),
    *((kept, kept) for kept in ("--tokenizer gpt2 --max-tokens 512 --keypoints 17", "Write KEY=VALUE.", "--use-token --lr 3", "a: token")),
])  # fmt: skip
def test_secrets_are_shown_to_nobody(words: str, shown: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert masked(words) == shown
    run = ended(ROOT, "done", command=f"python {words}")
    page.write([run], Path("report.html"))
    said = Path("report.html").read_text() + visible(masked(words))
    assert "hunter" not in said and SECRET not in said
    began = time.process_time()
    for long in ("a_" * 65_000, "--token " * 20_000, "'--token=" * 20_000):
        masked(long)
    assert time.process_time() - began < 2


def test_words_of_others_reach_no_terminal_raw(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = ended(ROOT, "failed", waits_for=STEERS, recipe=STEERS, attempts=[{"remarks": [STEERS], "ended": STEERS, "evidence": STEERS}])
    path = path.rename(path.with_name(f"a{STEERS}\nb\udcff"))
    (path / "run.stdout.log").write_text(f"{STEERS}RuntimeError: CUDA out of memory {STEERS}\n")
    Path("recipes/mine.yaml").write_text(f"summary: {json.dumps(STEERS)}\nask: {{micro_batch: 4}}\ndata: ${{oc.env:HF_TOKEN}}\n")
    Path(f"recipes/{STEERS}.yaml").write_text("ask: {micro_batch: 4}\n")
    for words in (["runs"], ["watch"], ["explain"], ["recipes"], ["show", "mine"], ["stop", str(path)], ["resume"], ["report"],
                  ["runs", "--prune"],
                  ["train", "recipe=mine", "--cfg", "job", "--resolve"],
                  ["watch", STEERS], [STEERS], ["ladder", f"recipe={STEERS}"], ["ladder", f"{STEERS}=1"], ["explain", STEERS]):  # fmt: skip
        main.run(words)
        said = "".join(capfd.readouterr())
        assert said and SECRET not in said and not set(STEERS) & set(said) - set("]0;title[2J6n31m"), (words, said)


def on_a_terminal(*words: str) -> bytes:
    """What a command line writes on one of 80 columns."""
    own, other = pty.openpty()
    with subprocess.Popen([sys.executable, "-m", "autofit_launcher", *words], stdin=other, stdout=other, stderr=other) as child:
        os.close(other)
        said = b"".join(pieces(own))
    assert child.returncode is not None
    os.close(own)
    return said


def pieces(descriptor: int) -> Iterator[bytes]:
    try:
        while piece := os.read(descriptor, 1 << 16):
            yield piece
    except OSError:
        return


def test_a_log_keeps_its_colours_and_steers_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    path = ended(ROOT, "done")
    log = f"\x1b[31mred\x1b[0m é {STEERS}\x1b]52;c;eA==\x07\r50%\n".encode()
    (path / "run.stdout.log").write_bytes(log + b"\x9b" + b"x" * (logs._PIECE_BYTES - len(log) - 2) + "\x9b\n".encode())
    said = on_a_terminal("logs")
    assert "\x9b".encode() not in said and b"x\\x9b\r\n" in said and b"\n\x9bx" not in said
    (path / "run.stdout.log").write_bytes(log)
    assert b"\x1b[31mred\x1b[0m \xc3\xa9 \\x1b]0;title\\x07\\x1b[2J\\x1b[6n" in said and b"\\x1b]52" in said and b"\r50%" in said
    assert main.run(["logs"]) == 0 and log.decode().replace("\r", "") in capfd.readouterr().out.replace("\r", ""), "elsewhere as it is"


def test_a_page_holds_no_markup_of_others(here: Path) -> None:
    script = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    run = ended(ROOT, "failed", recipe=script, command=script, cwd=script, environment={script: script},
                given_up={script: {"asked": script, "used": 1}},
                attempts=[{"ended": script, "evidence": script}], device={"name": script, "kind": "cpu", "notes": [script]})  # fmt: skip
    (run / "run.stderr.log").write_text(script)
    assert "<script>" not in page.render([runs.run_in(run)]) and "<img" not in page.render([runs.run_in(run)])


# -- run folders

VALUES: tuple[Any, ...] = (
    float("nan"), float("inf"), -1, 10**400, 1e308, 2**62, "", STEERS, "x\ny", [], {}, None, True, [[]], {"a": {}}, "9" * 5000,
)  # fmt: skip


def leaves(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to every part of a value."""
    for key, inside in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*way, key)
        yield from leaves(inside, (*way, key))


def edited(node: Any, way: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(node))
    inside = copy
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = value
    return copy


VERBS = [line.split() for line in ("runs", "runs --peaks", "watch", "watch --json", "logs", "explain", "report", "stop RUN", "resume RUN")]


def shown(run: Path, capfd: pytest.CaptureFixture[str], what: object, verbs: list[list[str]] = VERBS) -> None:
    for verb in verbs:
        began = time.process_time()
        main.run([word.replace("RUN", str(run)) for word in verb])
        said = "".join(capfd.readouterr())
        assert "Traceback" not in said and "\x1b" not in said and time.process_time() - began < 5, (what, verb, said)


def test_no_edited_record_is_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    rung = {"rung_index": 1, "rung": {"micro_batch": 4}, "accumulation": 2}
    trial = {**rung, "verdict": "out_of_memory", "seconds": 3.0, "peak_bytes": 5, "why": "x", "phase": "train"}
    run = ended(
        ROOT, "failed", ladder=[rung], trials=[{**trial, "same_training": {"gradient": "x"}}],
        given_up={"micro_batch": {"asked": 8, "used": 4}}, chosen_rung_index=1, command="x", cwd=".",
        attempts=[{**rung, "ended": "crashed", "left": [{"path": "x", "done": 1.0, "unit": "epochs"}], "next": {"move": "stop"}}],
        kept={"used": True, "made": "x"}, run={"returncode": 1, "ended": "x"}, memory={"trial_peak_bytes": 1, "run_peak_bytes": 2},
        environment={"python": "3"}, could_fit=[{"flag": "x", "rung": {"micro_batch": 1}}], format=2, results={"loss": 1.0},
    )  # fmt: skip
    record = json.loads((run / "record.json").read_text())
    for number, way in enumerate(leaves(record)):
        (run / "record.json").write_text(json.dumps(edited(record, way, VALUES[number * 7 % len(VALUES)])))
        shown(run, capfd, way, VERBS if number % 9 == 0 else [["watch"], ["report"]])


def made(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(2 << 30)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        newer = b'{"format": 99, "status": "x", "new": {"a": 1}}'
        path.write_bytes({"latin": b'{"status": "\xe9"}', "deep": b"[" * 100_000, "newer": newer, "list": b"[1]"}[kind])


@pytest.mark.parametrize("kind", ["fifo", "folder", "huge", "device", "latin", "deep", "newer", "list"])
@pytest.mark.parametrize(
    "name", ["record.json", "owner.json", "submission.json", "series.jsonl", "recipe.yaml", "run.stderr.log", "trials/001/report.json"]
)
def test_no_file_of_a_run_folder_holds_a_verb_up(name: str, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    run = ended(ROOT, "failed", trying={"rung_index": 1})
    RunFolder(run).trial(1)
    if kind == "huge" and name.endswith(".log"):
        return  # which `autofit logs` shows to its end
    made(run / name, kind)
    shown(run, capfd, (name, kind))


def test_a_run_of_a_newer_autofit_is_left_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    run = ended(ROOT, "failed", format=99, new={"a": 1})
    (run / "recipe.yaml").write_text("name: x\n")
    before = (run / "record.json").read_bytes()
    assert "format 99" in refused(capfd, "resume", str(run)) and (run / "record.json").read_bytes() == before
    assert Record.read(run / "record.json") is not None


@pytest.mark.parametrize(("text", "words"), [
    (f"name: x\nask:\n{BOMB}", []), ("name: &a [*a]\n", []), ("name: " + "[" * 5000, []), ("name: " + "9" * 6000, []), ("[1]", []),
    ("1: 2", []), ("name: x\nrecover: 5\n", ["recover.restarts=2"]), ("name: x\n", ["recover.a=: ["]),
    ("name: x\n", ["recover.restarts=&a [*a]"]),
    ("name: x\n", ["recover.x=" + "[" * 5000]), ("name: x\n", ["recover.on_nan.x=1"]), ("data: ${oc.env:NO_SUCH_TOKEN}\n", []),
])  # fmt: skip
def test_no_edited_recipe_of_a_run_holds_its_resumption_up(text: str, words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    run = ended(ROOT, "interrupted", format=2, cwd=".")
    (run / "recipe.yaml").write_text(text)
    refused(capfd, "resume", str(run), *words)


def test_a_run_that_another_user_has_closed_hides_no_other(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    three = [ended(ROOT, "done") for _ in range(3)]
    stat_of = os.stat

    def closed(path: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(f"{ROOT / three[1].name}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat_of(path, **more)

    monkeypatch.setattr(os, "stat", closed)
    assert main.run(["runs"]) == 0
    said = capfd.readouterr().out
    assert [one.name in said for one in three] == [True, False, True]


@pytest.mark.parametrize("kind", ["another's", "everybody's", "fifo", "newer", "damaged", "endless"])
def test_a_history_that_others_wrote_proves_nothing_and_stays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kept_fits._file("mine", "d" * 64)
    file.parent.mkdir(parents=True)
    endless = {name: 10**30 if field.annotation is int else "x" for name, field in kept_fits.RunFailure.model_fields.items()}
    said = {"training": "mine", "digest": "d" * 64, "taken_by": "x", "failures": [endless] if kind == "endless" else [], "later": 1}
    file.write_text("{" if kind == "damaged" else json.dumps(said))
    file.chmod(0o666 if kind == "everybody's" else 0o600)
    if kind == "fifo":
        made(file, kind)
    if kind == "another's":
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert kept_fits.of("mine", "d" * 64).taken_by == ("x" if kind == "newer" else "")
    assert main.run(["fits"]) == 0 and file.exists()


def test_a_page_is_written_over_no_file_of_the_persons(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, mine, another = ended(ROOT, "done"), here / "mine", ended(ROOT, "failed")
    mine.write_text("mine")
    Path("report.html").symlink_to(mine)
    assert "no page of autofit's" in refused(capfd, "report", str(run), str(another)) and mine.read_text() == "mine"
    Path("report.html").unlink()
    assert [main.run(["report", str(run), str(another)]) for _ in range(2)] == [0, 0]
    (run / f".report.html.{os.getpid()}").symlink_to(mine)
    page.write([run], run / "report.html")
    assert mine.read_text() == "mine" and not (run / "report.html").is_symlink()


def test_a_link_of_others_in_the_temporary_folder_is_no_cache(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    (here / "torchinductor_you").symlink_to("nowhere")
    caches.separate({}, here / "place", launch=here / "launch")
    assert not list((here / "launch" / "inductor").iterdir())


def test_explain_takes_no_longer_for_what_never_ends(capfd: pytest.CaptureFixture[str]) -> None:
    for kind in ("huge", "fifo", "device"):
        made(Path("log"), kind)
        began = time.process_time()
        main.run(["explain", "log"])
        assert "Traceback" not in "".join(capfd.readouterr()) and time.process_time() - began < 5, kind


# -- stop, prune, shell


@pytest.mark.parametrize(("locked", "closed"), [(False, False), (True, False), (False, True)])
def test_stop_signals_only_who_holds_the_folder(
    locked: bool, closed: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ended(ROOT, "running")
    file = run / owner.NAME
    if closed:  # as ssh-agent, which lets nobody see what it has open
        monkeypatch.setattr(procfs, "has_open", lambda pid, file: None)
    with subprocess.Popen(["sleep", "60"]) as innocent:
        told = {"pid": innocent.pid, "ended": "", "locked": locked}
        file.write_text(json.dumps({**json.loads(file.read_text()), **told}) + "\n")
        with subprocess.Popen(["flock", str(file), "sleep", "60"]) if locked else subprocess.Popen(["true"]) as holder:
            while locked and runs.run_in(run).state != "running":
                time.sleep(0.05)
            main.run(["stop", str(run)])
            said = "".join(capfd.readouterr())
            assert innocent.poll() is None and ("doesn't hold it" if locked else "another user" if closed else "nothing to stop") in said
            holder.kill()
        innocent.kill()


@pytest.mark.parametrize("script", ["/elsewhere/x.sh", "RUN/slurm/x.sh"])
def test_stop_ends_no_job_but_the_folders_own(script: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ended(ROOT, "interrupted")
    submission.write(run, submission.Submission(job="12", name=run.name, cwd=".", handed_in=1.0))
    answer = f'case "$*" in *%o*) echo {script.replace("RUN", str(run))} ;; *) [ -e ended ] || echo "PENDING|None|{run.name}" ;; esac'
    for program, does in {"squeue": answer, "scancel": "touch ended"}.items():
        (here / program).write_text(f"#!/bin/sh\n{does}\n")
        (here / program).chmod(0o700)
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    assert main.run(["stop", str(run)]) == (script[0] == "/") and (here / "ended").exists() == (script[0] == "R")


@pytest.mark.parametrize(
    "flag", [{"partition": "a\ntouch pwned #"}, {"sbatch": {"x\ntouch pwned": 1}}, {"sbatch": {"x": "\u2028touch pwned"}}]
)
def test_no_value_becomes_a_line_of_a_jobs_script(flag: dict[str, Any], here: Path) -> None:
    more = flag.pop("sbatch", {})
    with pytest.raises(BadInput, match="more than one line"):
        slurm.submit(["true"], here / "slurm", flag, more=more, setup=())
    assert not (here / "slurm").exists()


def test_stop_follows_no_link_to_another_run(capfd: pytest.CaptureFixture[str]) -> None:
    mine, theirs = ended(ROOT, "running"), ended(ROOT, "running")
    with owner.owning(mine):
        (theirs / owner.NAME).unlink()
        (theirs / owner.NAME).symlink_to(mine / owner.NAME)
        main.run(["stop", str(theirs)])
    assert "nothing to stop" in capfd.readouterr().out


@pytest.mark.parametrize("pid", [-1, 0, 1, True, "1/../self", 2**40, None])
def test_stop_takes_no_number_that_is_no_process(pid: object, capfd: pytest.CaptureFixture[str]) -> None:
    run = ended(ROOT, "running")
    (run / owner.NAME).write_text(json.dumps({**json.loads((run / owner.NAME).read_text()), "pid": pid, "ended": "", "locked": False}))
    main.run(["stop", str(run)])
    said = "".join(capfd.readouterr())
    assert "asked process" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    "name", ["model_best.pth.tar", "w.npy", "w.gguf", "w", "weights/0001", "out.csv", "../notes.txt", "link", "x.LOG/w"]
)
def test_prune_keeps_whatever_a_run_wrote(name: str) -> None:
    run = ended(ROOT, "done")
    (run / "run" / name).parent.mkdir(parents=True, exist_ok=True)
    (run / "run").mkdir(exist_ok=True)
    (run / "run" / name).symlink_to("/nowhere") if name == "link" else (run / "run" / name).write_text("x")
    assert main.run(["runs", "--prune", "--yes"]) == 0 and run.is_dir()


def test_prune_removes_what_is_known_to_be_worthless() -> None:
    run = ended(ROOT, "failed")
    for name in ["results.png", "a.log", "args.yaml", "logs/events.out.tfevents.1.host", "../trials/001/stdout.log", "../native/a.py"]:
        name = f"run/{name}"
        (run / "run").mkdir(exist_ok=True)
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("x")
    assert main.run(["runs", "--prune", "--yes"]) == 0 and not run.exists()


def test_no_name_becomes_a_line_of_shell(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rung = Rung(index=0, values={"micro_batch": 1}, position=(0,), accumulation=1)
    checkpoint = CheckpointRecord(path=Path("a\ntouch pwned\r\u2028touch pwned"), done=1.0, unit="epochs")
    text = run._as_file(Command(argv=("true", "a\nb; touch pwned")), rung, f"on from {checkpoint}")
    subprocess.run(["sh", "-c", text], check=True)
    assert not (here / "pwned").exists()
    path = ended(here / "a b;'c", "failed")
    assert main.run(["stop", str(path)]) == 0
    said = capfd.readouterr().out
    assert shlex.split(said.split("`")[1]) == ["autofit", "resume", str(path)]
