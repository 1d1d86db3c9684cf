"""What runs inside the trainer's process. Only modules in this folder import torch or a trainer's package.

The launcher starts ``python -m launcher.worker ORDERS.json`` and reads back ``report.json``.

for every trainer   __main__, orders: one trial in this process      recorder: phases, steps and peaks -> the report
                    budget: the hard cap                          budgeted: a full run under an emulated budget
Ultralytics         ultralytics_trial, on top of yolo_exact (the yolo command with what its command line can't say)
transformers        transformers_trial, on top of hf_run with hf_speech or hf_text (the trainers that recipes launch)
any script          script_trial starts the person's own command; probe/ is loaded into each of its Python processes

``yolo_exact``, ``hf_run``, ``hf_speech`` and ``hf_text`` import nothing of autofit: a run's folder gets copies that work without it.
Outside this folder only ``orders`` and the ``*_env`` modules are imported: standard library only.
"""
