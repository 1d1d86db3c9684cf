"""A sweep by Optuna: each trial trains at the rung that fits it, a wider network at a smaller micro-batch, all at one effective batch.

pip install optuna
python sweep.py --trials 4 --memory 128MiB
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import optuna

import autofit_launcher as autofit

HERE = Path(__file__).parent


def objective(trial: optuna.Trial, settings: dict[str, str]) -> float:
    width = trial.suggest_int("width", 64, 1024, log=True)
    learning_rate = trial.suggest_float("lr", 1e-3, 1e-1, log=True)
    told = Path(f"loss_{trial.number}.json").absolute()
    words = ["--width", str(width), "--lr", str(learning_rate), "--batch-size", "256", "--tell", str(told)]
    try:
        result = autofit.run([sys.executable, str(HERE / "train.py"), *words], {**settings, "name": f"sweep_{trial.number}"})
    except autofit.NoFit as error:
        raise optuna.TrialPruned(str(error)) from error
    trial.set_user_attr("micro_batch", result.rung["micro_batch"])
    trial.set_user_attr("effective_batch", result.effective_batch)
    return float(json.loads(told.read_text())["loss"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--memory", help="a smaller device, as in device.memory")
    args = parser.parse_args()
    settings = {"device.memory": args.memory} if args.memory else {}
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: objective(trial, settings), n_trials=args.trials)
    for trial in study.trials:
        print(trial.number, trial.state.name, trial.params, trial.value, trial.user_attrs)


if __name__ == "__main__":
    main()
