"""What runs inside the trainer's process. Only modules in this folder import torch or a trainer's package.

The launcher starts ``python -m launcher.worker JOB.json`` and reads back ``report.json``; it never imports anything from here.
"""
