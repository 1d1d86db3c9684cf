"""A script's own values are bound otherwise, and nothing else about it is: its files, its main module, what children of it see."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.errors import BadInput
from autofit_launcher.trainers.script import candidates, outside
from autofit_launcher.trainers.script.native.values import bindings

SCRIPT = """from __future__ import annotations
import inspect, json, multiprocessing, pickle, sys

CONFIG = {'batch': 64, "lr": 0.5}

class Own:
    pass

def child(queue):
    queue.put(CONFIG["batch"])

def main():
    queue = multiprocessing.get_context("fork").Queue()
    one = multiprocessing.get_context("fork").Process(target=child, args=(queue,))
    one.start()
    seen = queue.get(timeout=60)
    one.join()
    print(json.dumps({
        "here": [CONFIG["batch"], CONFIG["lr"]], "child": seen, "file": __file__, "spec": __spec__ is None, "first": sys.path[0],
        "source": inspect.getsource(child), "argv": sys.argv, "own": "os" in globals(), "pickled": len(pickle.dumps(Own())) > 0,
    }))

if __name__ == "__main__":
    main()
    raise ValueError("the person's own")
"""


def ran(place: Path, orders: list[tuple[str, object, object]], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(outside.NATIVE / "values.py"), *words]
    env = {**os.environ, "VALUES": json.dumps(orders)}
    return subprocess.run(command, cwd=place / "own", env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "train.py").write_text(SCRIPT)
    return tmp_path


def test_the_program_sees_the_other_values_and_nothing_else(place: Path) -> None:
    own = place / "own"
    done = ran(place, [("CONFIG['batch']", 64, 16)], "train.py", "a")
    assert done.stdout, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["here"], seen["child"]) == ([16, 0.5], 16)
    assert seen["file"] == str(own / "train.py") and seen["first"] == str(own) and not seen["own"] and seen["pickled"]
    assert seen["spec"] and seen["argv"] == ["train.py", "a"] and seen["source"].startswith("def child(queue)")
    assert 'in <module>\n    raise ValueError("the person\'s own")' in done.stderr
    assert [path.name for path in own.iterdir()] == ["train.py"] and (own / "train.py").read_text() == SCRIPT


@pytest.mark.parametrize(
    ("source", "given", "why"),
    [
        ("CONFIG = {'batch': 8}", 64, "it isn't there"),
        ("CONFIG = {'batch': 64}\nCONFIG['batch'] = 64", 64, "it stands in lines 1, 2"),
        ("CONFIG = {'batch': 2 * 32}", 64, "it isn't there"),
    ],
)
def test_a_value_that_is_not_where_it_was_ends_the_program_with_the_reason(place: Path, source: str, given: int, why: str) -> None:
    script = place / "own" / "train.py"
    script.write_text(f"{source}\nprint('it ran')\n")
    done = ran(place, [("CONFIG['batch']", given, 16)], "train.py")
    assert done.returncode != 0 and "it ran" not in done.stdout
    assert f"CONFIG['batch'] = {given} of {script} can't be set to 16: {why}" in done.stderr


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("CONFIG = {'train': {'batch': 7}}", "CONFIG['train']['batch']"),
        ("cfg = dict(batch=7)", "cfg['batch']"),
        ("class A:\n    x: int = 7", "A.x"),
        ("a, b = 3, 7", "b"),
        ("try:\n    B = 7\nexcept E:\n    pass", "B"),
    ],
)
def test_a_value_is_named_as_a_person_would(source: str, name: str) -> None:
    assert [one.name for one in bindings(ast.parse(source).body) if one.node.value == 7] == [name]


def test_a_name_is_found_whatever_its_quotes_and_the_accumulation_beside_it_is_turned_along(tmp_path: Path) -> None:
    script = tmp_path / "t.py"
    script.write_text("ACCUM = 7\nCONFIG = {'batch': 32, 'accum': 2}\n")
    found = candidates.pointed(["python", str(script)], script, ' CONFIG["batch"]')
    assert {wheel: (one.value, one.spelling) for wheel, one in found.items()} == {
        "micro_batch": (32, "value:CONFIG['batch']"), "accumulation": (2, "value:CONFIG['accum']"),
    }  # fmt: skip
    with pytest.raises(BadInput, match="Say one of these"):
        candidates.pointed(["python", str(script)], script, "BATCHES")
