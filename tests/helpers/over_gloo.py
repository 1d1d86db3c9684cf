"""Runs Ultralytics' own program, given as words, in several processes on a CPU: its runs know cards alone, and twins are runs."""

from __future__ import annotations

import os
import runpy
import sys

from ultralytics.engine.trainer import BaseTrainer

from launcher.trainers.ultralytics.inside.gloo import OverGloo

if __name__ == "__main__":
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        BaseTrainer.world_size, BaseTrainer._setup_ddp = OverGloo.world_size, OverGloo._setup_ddp
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
