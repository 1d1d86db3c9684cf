"""What runs in the trainer's process, whichever trainer it is: a trial, the hold on memory, the report.

The launcher starts ``python -m launcher.worker ORDERS.json`` and reads back ``report.json``.

__main__   one trial in this process: its orders in, the exit status out      recorder   phases, steps and peaks -> the report
budget     the hard cap                                                       budgeted   a full run under an emulated budget
driver     what is in use on a card                                           lifeline   no process outlives the one that started it
early      a budget that is taken before a program begins                     shim       what loads ours into a program
api        what the trial of a trainer's package imports                       stacks     tells where a process stands, even where it hangs
steps      the optimizer steps of a full run, counted                         after_import   acts on a module as soon as it is imported
guardian   ends what a launcher that was killed has left                      quiet      a script that is tried sends and fetches nothing
overlay    what a program writes while it is tried goes aside                 overlaid_libraries   and what libraries write natively
snapshot   a card's memory, allocation by allocation                          versions   of what the process has loaded
ranks      one of several processes that torchrun has started                 memory_parts   weights and optimizer states, counted
cards      which of several this process is on                                loaders    what workers hold ahead, counted
loss_scale   of fp16: a trial's steps are taken                               whole_saves   a kill leaves the checkpoint before it

What only one trainer needs stands in that trainer's room, ``trainers/NAME/inside``, and what is copied into a run's folder in
``trainers/NAME/native``. Nothing outside a process of a trainer's imports this folder or an ``inside``.
Both sides import ``shared``: standard library only. Beside a person's own program (``shim``) our modules are
loaded by a private name, so those that are loaded there name one another relatively.
"""
