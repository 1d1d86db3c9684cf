"""How people say to Ultralytics what a lower rung changes, and how its logs are known. Facts of engine/trainer.py of 8.4.190."""

from launcher.adapter import Dialect

DIALECT = Dialect(
    trainer="Ultralytics",
    signs=r"Ultralytics (YOLO)?\S*\d|ultralytics[/\\](engine|utils|nn|models|data|cfg)|^engine/trainer: |AutoBatch: "
    r"|^\s*yolo (detect|segment|pose|obb|train)",
    changes={
        "batch": "batch= half as large: up to 64 (nbs) Ultralytics accumulates by itself, so the effective batch stays",
        "size": "imgsz= smaller (640 -> 512 needs about two thirds)",
        "precision": "amp=True, if it was turned off",
        "optimizer": "optimizer=SGD in place of AdamW (one state for each weight and not two)",
        "model": "a smaller model (yolo11l -> yolo11m), or freeze=10 for a frozen backbone",
        "eval_batch": "batch= smaller: validation takes twice the training batch; val=False leaves it out until the end",
        "eval_kept": "max_det= and conf= bound what a validation keeps of each image",
        "workers": "workers= fewer (0: none)",
        "unpinned": "PIN_MEMORY=false in the environment: Ultralytics pins without it",
        "cache": "cache=False or cache=disk in place of cache=ram",
    },
)
