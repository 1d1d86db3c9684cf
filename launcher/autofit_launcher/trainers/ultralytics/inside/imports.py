"""Starts the thread pools that a full Ultralytics run will use, before a CPU budget is taken (``environment.BASE``).

polars above all: Ultralytics reads results.csv with it at the first checkpoint, and its pool of threads, started then under
RLIMIT_DATA, aborts the process or hangs it for good instead of raising an error (both seen, polars 1.x, 2026-11).
"""

from __future__ import annotations

import importlib

import matplotlib
import numpy as np
import ultralytics.engine.trainer

matplotlib.use("Agg")
np.ones((256, 256)) @ np.ones((256, 256))  # OpenBLAS takes its buffers at its first product, and calls exit(1) where it can't
reader = ultralytics.engine.trainer.BaseTrainer.read_results_csv.__code__.co_names
if "pandas" in reader:  # before 8.3.150 (about)
    importlib.import_module("pandas")
elif "polars" in reader:
    importlib.import_module("polars").read_csv(b"epoch,time\n1,2.0\n").to_dict(as_series=False)
