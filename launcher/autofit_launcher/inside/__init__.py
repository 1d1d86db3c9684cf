"""Runs in the trainer's process, whichever trainer it is: the instrument of a trial, the hold on memory, the report.

The launcher starts ``python -m autofit_launcher.inside ORDERS.json`` and reads back ``report.json``. A person's own command is loaded with
the instrument from outside: ``shim/sitecustomize.py`` stands first on PYTHONPATH, so that every Python process of the command runs it.

start      what a process is told -> hooks in it      instrument   phases of a trial, decided
patches    what is replaced in torch                 passes     over a data loader: cut, worst first
stubs      of the model's forward                    worst      the largest batches first
loader_look   what a loader gives, data alone        gathered   what each batch of a pass leaves in memory
agreement  what several processes decide alike          budget     the hard cap
recorder   phases, steps and peaks -> the report      meters     memory in use, and its peaks
part       this process: card, budget, report        counted    steps, and micro-batches of each
trial      runs the command, puts reports together    plainly    runs it without autofit, to prove a crash
going_on   the second process, from a checkpoint      kept_checkpoint   which the first process leaves
driver     what is in use on a card                   cards      which of several this process is on
forks      off a process that has made a command's imports             server     which a launch starts once
overlay    what a program writes while it is tried goes aside          overlaid_libraries   and what libraries write natively
reach      which of its processes the probe can't come into                loaders    what workers hold ahead, counted
caches     those of libraries belong to the trial     quiet      a script that is tried sends and fetches nothing
steps      the optimizer steps of a full run, counted                  whole_saves   a kill leaves the checkpoint before it
lifeline   no process outlives the one that started it                 guardian   ends what a launcher that was killed has left
after_import   acts on a module as soon as it is imported
arrives    where the batch of a command arrives           api        what the trial of a trainer's package imports

What only one trainer needs stands in that trainer's room, ``trainers/NAME/inside`` (``hooks``: what the instrument is told of it), and what
is copied into a run's folder in ``trainers/NAME/native``. Nothing outside a process of a trainer's imports this folder or an ``inside``.
Both sides import ``common``: standard library only. Beside a person's own program our modules are loaded by a private name, so those that
are loaded there name one another relatively.
"""
