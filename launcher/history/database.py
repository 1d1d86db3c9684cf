"""Keeps what launches learn for later ones in one SQLite file: kept fits, and full runs that failed.

Each table has rows of its own type. A change is one immediate transaction, so that concurrent
launches are safe, on NFS too. No run depends on the file: a damaged one, or one with other tables, is renamed and a new one begun. If it
can't be used (locked, read-only, a full disk), a launch goes on without it. docs/decisions/011.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from launcher import paths

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Row = TypeVar("Row", bound=DataclassInstance)

VERSION = 1
"""Version of the tables. It is part of the file's name, so that two versions of autofit on a machine don't replace each other's file."""
WAIT_S = 10.0
"""Seconds to wait for another launch that uses the file."""
TABLES = """
create table fits (id integer primary key autoincrement, made text not null, training text not null, digest text not null,
    depends_on json not null, device text not null, rung_index integer not null, rung json not null, least_cap_bytes integer not null,
    most_cap_bytes integer not null, trials json not null, run_dir text not null, same json not null);
create index fits_by_digest on fits (digest);
create index fits_by_training on fits (training);
create table failures (digest text not null, rung_index integer not null, training text not null, at text not null, why text not null,
    run_dir text not null, cap_bytes integer not null);
create index failures_by_digest on failures (digest);
create table uses (digest text not null, run_dir text not null, at text not null, ended text not null, primary key (digest, run_dir));
create table written (training text not null, folder text not null, path text not null, primary key (training, folder, path));
"""
"""All are ``history.kept_fits``'."""


class HistoryUnusableError(Exception):
    """The history can't be used now; the message says why. A launch then makes its trials."""


class Database:
    """The history file, opened for one read or one change."""

    def __init__(self, connection: sqlite3.Connection, remark: str = "") -> None:
        self._connection = connection
        self.remark = remark
        """A sentence for the person about the file; empty where there is nothing to say."""

    def rows(self, kind: type[Row], table: str, condition: str = "", *values: object) -> list[Row]:
        """Rows of a table as values of a type whose fields are its columns. ``condition``: what follows the table's name."""
        names = [one.name for one in fields(kind)]
        found = self._connection.execute(f"select {', '.join(names)} from {table} {condition}", values)
        return [kind(**dict(zip(names, row, strict=True))) for row in found]

    def add(self, table: str, row: DataclassInstance) -> int:
        """Adds a row and returns its number. A field called ``id`` is set by the table."""
        values = {one.name: _stored(getattr(row, one.name)) for one in fields(row) if one.name != "id"}
        marks = ", ".join("?" * len(values))
        return self.execute(f"insert or replace into {table} ({', '.join(values)}) values ({marks})", *values.values()).lastrowid or 0

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction: what is done while it is open is written as a whole, or not at all."""
        self._connection.execute("begin immediate")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has rolled it back already
                self._connection.execute("rollback")
            raise
        self._connection.execute("commit")


def file() -> Path:
    return paths.state_folder() / f"history-{VERSION}.sqlite3"


@contextmanager
def opened() -> Iterator[Database]:
    """Opens the history. Raises HistoryUnusableError if it can't be used, now or while it is open."""
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection, remark = _whole(path)
    except (OSError, sqlite3.Error) as error:
        raise HistoryUnusableError(f"{path} can't be used: {error}") from error
    with closing(connection):
        opened_file = _identity(path)
        try:
            yield Database(connection, remark)
        except sqlite3.Error as error:
            aside = _set_aside(path, opened_file) if _is_damage(error) else None
            words = f"is damaged ({error}) and was set aside as {aside}" if aside is not None else f"can't be used: {error}"
            raise HistoryUnusableError(f"{path} {words}") from error


def _whole(path: Path) -> tuple[sqlite3.Connection, str]:
    """A connection to a file that can be read, and what had to be done for that."""
    before = _identity(path)
    try:
        return _connected(path), ""
    except sqlite3.Error as error:
        if not _is_damage(error):
            raise
        aside = _set_aside(path, before)
        words = f"what earlier launches had learned can't be read ({error}): it is set aside as {aside}, and begun anew"
        return _connected(path), words if aside is not None else ""


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES)
    try:
        if _version_of_tables(connection) == 0:
            _make_tables(connection)
        if (version := _version_of_tables(connection)) != VERSION:
            raise sqlite3.DatabaseError(f"its tables are of version {version}")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    """Creates the tables, unless a concurrent launch has done so."""
    with Database(connection).change():
        if _version_of_tables(connection) == 0:
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"pragma user_version = {VERSION}")


def _version_of_tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _is_damage(error: sqlite3.Error) -> bool:
    """Tells a damaged file from one that is only locked or can't be written."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return type(error) is sqlite3.DatabaseError  # raised here
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def _set_aside(path: Path, damaged: tuple[int, int] | None) -> Path | None:
    """Renames the damaged file, with its journal. None where that can't be done, or another launch has, so that ``path`` is a new one."""
    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}")
    with suppress(OSError), Path(f"{path}.lock").open("w") as lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _identity(path) == damaged:
            path.rename(aside)
            with suppress(FileNotFoundError):
                Path(f"{path}-journal").rename(f"{aside}-journal")
            return aside
    return None


def _stored(value: Any) -> Any:
    """Mappings and sequences as JSON, records in them as they are written; a column of that type reads it back."""
    return (
        json.dumps(value, default=lambda record: record.written())
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str)
        else value
    )


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise sqlite3.DatabaseError(f"a row can't be read: {error}") from error


sqlite3.register_converter("json", _json)
