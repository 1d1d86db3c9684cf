"""Finds the verb of a command line, runs it, and ends with its words, JSON and exit status. The only module that exits.

``autofit VERB [--json] [HYDRA'S OWN FLAGS] [OVERRIDES]``, and for a verb that takes a command ``autofit VERB [OVERRIDES] -- COMMAND``.
The words are read by hand, since most of them are Hydra's or somebody else's. Everything heavy is imported where it is needed:
``--help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import FrameType
from typing import TypeVar

from autofit_launcher import __version__
from autofit_launcher.cli import manual, verbs
from autofit_launcher.cli.call import Answer, Call, Task, Verb
from autofit_launcher.cli.say import Streams, Terminal
from autofit_launcher.common import interpreter
from autofit_launcher.config import compose
from autofit_launcher.errors import BadInput, ExitCode, Interrupted, refusal
from autofit_launcher.paths import typed

T = TypeVar("T")

_JSON = "--json"
_HELP = frozenset({"-h", "--help"})
_COMPLETION = frozenset({"-sc", "--shell-completion", "--shell_completion"})


def main() -> None:
    """The console entry point."""
    streams = Streams()
    interpreter.leave_path()
    _stop_on_signals()
    try:
        status = run(sys.argv[1:])
    finally:
        streams.close()
    sys.exit(status)


def run(argv: Sequence[str]) -> int:
    """Runs one command line; returns the exit status."""
    name = next((word for word in argv if word != _JSON), "")
    verb = verbs.find(name)
    words, command = _split(argv, verb)
    terminal = Terminal(as_json=_JSON in words)
    words = [word for word in words if word != _JSON]
    if _COMPLETION & set(words):
        return _complete(words, terminal)
    if "--version" in words:
        terminal.say(f"autofit {__version__}")
        return ExitCode.DONE
    if name in ("", "help", *_HELP) or (verb is not None and _HELP & set(words)):
        of = verb or next(filter(None, map(verbs.find, words[1:])), None)
        terminal.say(manual.page(of, whole="all" in words) if of is not None else verbs.help_text())
        return ExitCode.DONE
    return _performed(lambda: _begun(name, words[1:], command, terminal), terminal)


def _split(argv: Sequence[str], verb: Verb | None) -> tuple[list[str], list[str]]:
    """The words that are ours (or Hydra's), and those of a command after ``--``, where the verb takes one."""
    at = argv.index("--") if verb is not None and verb.commands and "--" in argv else len(argv)
    return list(argv[:at]), list(argv[at + 1 :])


def _begun(name: str, words: Sequence[str], command: Sequence[str], terminal: Terminal) -> Answer | list[Task]:
    """Calls the verb. Raises BadInput for words that it doesn't take, before it looks at them."""
    verb = verbs.named(name)
    if "--" in words:
        raise refusal(f"autofit {name} takes no command", "Did you mean autofit run -- ...?")
    flags, rest = _flagged(words, verb)
    os.getcwd()  # that of a shell may be gone
    call = Call(verb=name, terminal=terminal, words=tuple(rest), flags=flags, command=tuple(command))
    if "--detach" in flags and "launch=slurm" not in rest:  # what is handed to SLURM goes on without this terminal anyway
        from autofit_launcher.cli.detach import detached

        return detached(call)
    begun = verb.run(call)
    return begun if isinstance(begun, Answer) else list(begun)


def _flagged(words: Sequence[str], verb: Verb) -> tuple[dict[str, str], list[str]]:
    """Returns (the verb's flags with their values, the other words). Raises BadInput for a flag that has no value."""
    flags, rest, left = dict[str, str](), list[str](), list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if not verb.valued.get(name) and word not in verb.valued:
            rest.append(word)
        elif verb.valued[name] and not equals and not left:
            raise refusal(f"{name} has no value", f"See autofit {verb.name} --help.")
        else:
            flags[name] = value if equals or not verb.valued[name] else left.pop(0)
    return flags, rest


def _performed(begin: Callable[[], Answer | list[Task]], terminal: Terminal) -> int:
    """Does each job that a call comes to. The worst exit status counts."""
    jobs = _guarded(begin, terminal)
    statuses = []
    for answer in [jobs] if isinstance(jobs, Answer) else (_guarded(job, terminal) for job in jobs):
        terminal.record(answer.record)
        statuses.append(answer.status)
    return max(statuses, default=ExitCode.DONE)


def _stopped(stopped: Interrupted, terminal: Terminal) -> Answer:
    where = {"run_dir": stopped.run_dir} if stopped.run_dir else {}
    terminal.complain(f"autofit: {stopped}" + ("; no process is left behind" if where else ""))  # of another's run nothing is said
    if where:
        terminal.complain(f"`{typed('resume', stopped.run_dir)}` goes on with it.")
    if _time_is_up:
        from autofit_launcher.cli import submit

        submit.queue_again(stopped.run_dir, terminal)
    return Answer(status=stopped.exit_code, record={"status": "interrupted", "signal": stopped.signal_name, **where})


def _stop_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end autofit as Ctrl-C does, by an exception that the record is written on."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Interrupted(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup: whoever started us wants us to stay
            signal.signal(number, handle)
    if "SLURM_JOB_ID" in os.environ and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, _warned)


_time_is_up: list[int] = []
"""SLURM's warning before the time limit of this job, once it has come."""


def _warned(number: int, frame: FrameType | None) -> None:
    """Answers ``sbatch --signal=B:USR2@120``: ends everything as SIGTERM does, and then has the job queued again."""
    _time_is_up.append(number)
    signal.raise_signal(signal.SIGTERM)


def _guarded(act: Callable[[], T], terminal: Terminal) -> T | Answer:
    """Runs ``act``; what stops autofit becomes words, and an answer for JSON and the exit status. The only such place."""
    try:
        return act()
    except BadInput as refused:
        return _refused(refused, terminal)
    except (KeyboardInterrupt, Interrupted) as stopped:
        return _stopped(stopped if isinstance(stopped, Interrupted) else Interrupted("SIGINT"), terminal)
    except Exception as error:
        if isinstance(error, OSError) and (error.filename or error.errno in (errno.EMFILE, errno.ENOENT)):
            cure = "Name a file or folder that this user can read and write, on a disk with room; or raise this shell's limit (ulimit)."
            where = error.filename or ("ulimit -n" if error.errno == errno.EMFILE else "this folder")
            return _refused(refusal(str(error.strerror), cure, where=str(where)), terminal)
        import traceback  # a fault of autofit's own: its traceback is what helps to mend it

        terminal.complain("".join(traceback.format_exception(error)).rstrip())
        return Answer(status=ExitCode.BAD_INPUT, record={"status": "stopped", "error": f"{type(error).__name__}: {error}"})


def _refused(refused: BadInput, terminal: Terminal) -> Answer:
    terminal.faults(refused.faults)
    return Answer(status=refused.exit_code, record={"status": "bad_input", "faults": [asdict(fault) for fault in refused.faults]})


def _complete(words: Sequence[str], terminal: Terminal) -> int:
    """Completes a line for Tab: the verb and its flags by the table, overrides by Hydra, which never learns of the verb. Words of others
    are among them: none is offered that a shell would run, or take apart."""
    line, query, said = os.environ.get("COMP_LINE", ""), any(word.startswith("query=") for word in words), ""
    if query and (offered := verbs.completions(line)) is not None:
        said = " ".join(offered)
    else:
        typed = line.split()
        if len(typed) > 1:
            os.environ["COMP_LINE"] = line.replace(f" {typed[1]}", "", 1)
        with suppress(Exception):  # a half-typed line is no mistake
            said = compose.complete(words)
    terminal.say("\n".join(word for word in said.split() if shlex.quote(word) == word) if query else said)
    return ExitCode.DONE
