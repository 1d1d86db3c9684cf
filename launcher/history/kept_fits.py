"""Stores successful fits with the inputs they depend on; finds one that is still valid, or says what changed.

One SQLite file in autofit's state folder, safe under launches that come together. A row is sealed by a checksum of its own, and the whole
is looked over each time: a torn store is set aside, never deleted, and what can still be read of it goes into a new one.
docs/decisions/016.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launcher import paths
from launcher.shared.sizes import format_size

VERSION = 1
"""Of the tables. A store of a later autofit's is left alone."""
WAIT_S = 10.0
"""How long another launch may hold the store."""
ANY_CAP = 2**63 - 1
"""What was asked fits: more memory changes nothing."""
MOST = 1000
"""Fits that are kept; the oldest go first."""
_TABLES = """
create table if not exists fits (id integer primary key autoincrement, subject text, digest text, body text, seal text);
create table if not exists disproved (digest text, rung_index integer, body text, seal text);
create table if not exists uses (digest text, run_dir text, at text, ended text, primary key (digest, run_dir));
create table if not exists written (subject text, folder text, path text, primary key (subject, folder, path));
create index if not exists by_digest on fits (digest);
"""


class StoreUnusableError(Exception):
    """The store can't be used now, with why. A launch makes its trials then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """A fit that was really proven."""

    id: int = 0
    made: str
    """When, UTC."""
    subject: str
    digest: str
    facts: Mapping[str, str]
    device: str
    rung_index: int
    rung: Mapping[str, Any]
    least_cap_bytes: int
    """The chosen rung's trial stays below every cap from here on."""
    most_cap_bytes: int
    """Every rung above really needed more than this."""
    trials: Sequence[Mapping[str, Any]]
    """As records, each with its report."""
    run_dir: str
    """Where they were made."""
    same: Mapping[str, Any] | None = None
    """What was found of the chosen rung's being the asked training; None where it wasn't looked at."""

    def holds_at(self, cap_bytes: int) -> bool:
        return self.least_cap_bytes <= cap_bytes <= self.most_cap_bytes

    @property
    def caps(self) -> str:
        """The caps at which it holds, in words."""
        least = f"from {format_size(self.least_cap_bytes)}"
        return f"{least} up" if self.most_cap_bytes == ANY_CAP else f"{least} to {format_size(self.most_cap_bytes)}"

    def overlaps(self, other: Certificate) -> bool:
        return self.least_cap_bytes <= other.most_cap_bytes and other.least_cap_bytes <= self.most_cap_bytes

    @property
    def peak_bytes(self) -> int:
        """Of the chosen rung's trial."""
        return next(int(one["peak_bytes"]) for one in self.trials if one["rung_index"] == self.rung_index)


@dataclass(frozen=True, kw_only=True, slots=True)
class Disproof:
    """A run that ran out of memory at the rung that had been proven for it."""

    digest: str
    rung_index: int
    subject: str
    at: str
    why: str
    run_dir: str
    cap_bytes: int = 0
    """Of the trials that had proven it; 0 where that isn't known."""

    def holds_at(self, cap_bytes: int) -> bool:
        """Whether a launch with this cap would run into the same."""
        return not self.cap_bytes or cap_bytes <= self.cap_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What the store says of a launch."""

    certificate: Certificate | None = None
    why: str = ""
    """Where there is none that holds: what keeps the last one of the same from it; empty where there never was one."""


class Store:
    """The store, opened for one look or one change."""

    def __init__(self, connection: sqlite3.Connection, said: Sequence[str]) -> None:
        self._connection = connection
        self.said = tuple(said)
        """What a person should know of the store itself."""

    def find(self, facts: Facts, *, cap_bytes: int) -> Found:
        """The newest fit of the very same launch that holds at this cap."""
        same = [one for one in self.all() if one.digest == facts.digest]
        if disproofs := self.disproofs(facts.digest):
            newest = disproofs[0]
            return Found(why=f"a run of the same launch failed at rung {newest.rung_index} on {day(newest.at)}: {newest.why}")
        for one in same:
            if one.holds_at(cap_bytes):
                return Found(certificate=one)
        if same:
            return Found(why=f"the cap is {format_size(cap_bytes)}, and the fit of {day(same[0].made)} holds {same[0].caps}")
        others = [one for one in self.all() if one.subject == facts.subject]
        if not others:
            return Found()
        last = others[0]
        return Found(why=f"since the fit of {day(last.made)}: {changes(last.facts, facts.known)}")

    def keep(self, one: Certificate, *, settled: Sequence[str] = ()) -> int | None:
        """Its number; None where a run has disproved that very fit before. An older one of the same launch gives way, at the same caps.

        ``settled``: folders of launches whose unknown ends are answered by its trials.
        """
        with self._changing():
            if self._connection.execute(
                "select 1 from disproved where digest = ? and rung_index = ?", (one.digest, one.rung_index)
            ).fetchone():
                return None
            body = json.dumps({key: value for key, value in asdict(one).items() if key != "id"}, sort_keys=True)
            old = [other.id for other in self.all() if other.digest == one.digest and other.overlaps(one)]
            self._connection.executemany("delete from fits where id = ?", [(number,) for number in old])
            self._connection.executemany("delete from uses where digest = ? and run_dir = ?", [(one.digest, folder) for folder in settled])
            self._begin(one.digest, one.run_dir)
            row = (one.subject, one.digest, body, _sealed(body))
            number = self._connection.execute("insert into fits (subject, digest, body, seal) values (?, ?, ?, ?)", row).lastrowid
            self._connection.execute("delete from fits where id <= ?", ((number or 0) - MOST,))
        return number

    def disprove(self, one: Disproof) -> None:
        """The fit is never used again, nor one of the same launch at the same rung kept."""
        with self._changing():
            body = json.dumps(asdict(one), sort_keys=True)
            self._connection.execute("delete from fits where digest = ?", (one.digest,))
            row = (one.digest, one.rung_index, body, _sealed(body))
            self._connection.execute("insert into disproved (digest, rung_index, body, seal) values (?, ?, ?, ?)", row)

    def doubt(self, digest: str) -> None:
        """Strikes the fits of a launch out; the next one of it makes its trials, and may keep what they show."""
        with self._changing():
            self._connection.execute("delete from fits where digest = ?", (digest,))

    def begin(self, digest: str, *, run_dir: str) -> None:
        """Writes down that a launch relies on a fit: where that can't be written, neither could be what the run may disprove."""
        with self._changing():
            self._begin(digest, run_dir)

    def _begin(self, digest: str, run_dir: str) -> None:
        self._connection.execute("insert or replace into uses (digest, run_dir, at, ended) values (?, ?, ?, '')", (digest, run_dir, now()))

    def end(self, digest: str, *, run_dir: str) -> None:
        """That launch has ended, and what its end says of the fit is written down."""
        with self._changing():
            self._connection.execute("update uses set ended = ? where digest = ? and run_dir = ?", (now(), digest, run_dir))

    def not_ended(self, digest: str) -> list[str]:
        """Folders of launches that rely on a fit, or relied on it and never came to say how that ended."""
        found = self._connection.execute("select run_dir from uses where digest = ? and ended = '' order by at desc", (digest,))
        return [run_dir for (run_dir,) in found]

    def written(self, subject: str, *, folder: str) -> list[str]:
        """What trials of this subject, launched in this folder, were seen to write beside its code."""
        found = self._connection.execute("select path from written where subject = ? and folder = ? order by path", (subject, folder))
        return [path for (path,) in found]

    def add_written(self, subject: str, paths: Sequence[str], *, folder: str) -> None:
        with self._changing():
            self._connection.executemany("insert or ignore into written values (?, ?, ?)", [(subject, folder, path) for path in paths])

    def uses(self) -> dict[str, int]:
        """Digest -> how many launches have relied on it, the one that made it included."""
        return dict(self._connection.execute("select digest, count(*) from uses group by digest").fetchall())

    def forget(self, number: int | None) -> int:
        """Forgets one fit, or all of them; how many that were. What runs have disproved stays known."""
        with self._changing():
            if number is None:
                return self._connection.execute("delete from fits").rowcount
            return self._connection.execute("delete from fits where id = ?", (number,)).rowcount

    def all(self) -> list[Certificate]:
        """Every fit whose seal is whole, newest first."""
        found = []
        for number, body, seal in self._connection.execute("select id, body, seal from fits order by id desc"):
            if (said := _opened(body, seal)) is not None:
                with suppress(TypeError):
                    found.append(Certificate(id=number, **said))
        return found

    def disproved(self) -> list[Disproof]:
        """What runs have disproved, newest first."""
        rows = self._connection.execute("select body, seal from disproved order by rowid desc")
        return [Disproof(**said) for body, seal in rows if (said := _opened(body, seal)) is not None]

    def disproofs(self, digest: str) -> list[Disproof]:
        """What runs have shown against fits of this launch, newest first. A row that can't be read still speaks against it."""
        rows = self._connection.execute("select rung_index, body, seal from disproved where digest = ? order by rowid desc", (digest,))
        unread = {"digest": digest, "subject": "", "at": "", "why": "its row can't be read", "run_dir": ""}
        return [Disproof(**(_opened(body, seal) or {**unread, "rung_index": rung_index})) for rung_index, body, seal in rows]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One change, whole or not at all, seen by no other launch before it is."""
        self._connection.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._connection.execute("rollback")
            raise
        self._connection.execute("commit")


@contextmanager
def opened(path: Path | None = None) -> Iterator[Store]:
    """The store. Raises StoreUnusableError where it can't be used (locked for too long, a full disk, a later autofit's)."""
    path = path or store()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection, said = _whole(path)
        with closing(connection):
            yield Store(connection, said)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnusableError(f"{path} can't be used: {error}") from error


def store() -> Path:
    """Where fits are kept."""
    return paths.state() / "fits.sqlite3"


def _whole(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    """A store that can be read, and what had to be done for it."""
    try:
        return _connected(path), []
    except sqlite3.OperationalError:  # locked, no permission, a full disk: it may be whole
        raise
    except sqlite3.DatabaseError:
        with Path(f"{path}.mending").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of launches that find it torn at once, one mends it
            return _mended(path)


def _mended(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    try:
        return _connected(path), []
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as torn:
        aside = _set_aside(path)
        connection = _connected(path)
        saved = _saved(aside, connection)
        return connection, [f"the kept fits were torn ({torn}): set aside as {aside}, {saved} of them could be read and were kept"]


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        said = connection.execute("pragma quick_check(1)").fetchone()
        if said is None or said[0] != "ok":
            raise sqlite3.DatabaseError(said[0] if said else "nothing can be read")
        version = connection.execute("pragma user_version").fetchone()[0]
        if version > VERSION:
            raise sqlite3.OperationalError("a later autofit has written it")
        connection.executescript(_TABLES)
        if version < VERSION:
            connection.execute(f"pragma user_version = {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _set_aside(path: Path) -> Path:
    """Renames it, with its journal."""
    aside = path.with_name(f"{path.name}.torn-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}")
    with suppress(FileNotFoundError):
        path.rename(aside)
    with suppress(FileNotFoundError):
        Path(f"{path}-journal").rename(f"{aside}-journal")
    return aside


def _saved(torn: Path, into: sqlite3.Connection) -> int:
    """Puts every row of a torn store that can be read and whose seal is whole into the new one."""
    count = 0
    for table, columns in (("disproved", "digest, rung_index, body, seal"), ("fits", "subject, digest, body, seal")):
        with suppress(sqlite3.Error), closing(sqlite3.connect(torn.as_uri() + "?mode=ro", uri=True)) as old:
            for row in old.execute(f"select {columns} from {table}"):
                if _opened(row[2], row[3]) is not None:
                    into.execute(f"insert into {table} ({columns}) values (?, ?, ?, ?)", row)
                    count += table == "fits"
    return count


def _sealed(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _opened(body: Any, seal: Any) -> dict[str, Any] | None:
    """A row's content; None where it isn't what was written."""
    if not isinstance(body, str) or seal != _sealed(body):
        return None
    said = json.loads(body)
    return said if isinstance(said, dict) else None


def day(at: str) -> str:
    """A time for people, in their own time zone."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%-d %b %H:%M")
    except ValueError:
        return "an unknown day"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a fit hangs on."""

    subject: str
    """What is trained, by name: what changed is told beside the last fit of the same."""
    known: Mapping[str, str]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(dict(self.known), sort_keys=True).encode()).hexdigest()


def changes(before: Mapping[str, str], now: Mapping[str, str], *, most: int = 3) -> str:
    """What is not as it was, in one line; empty where nothing is."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    names.sort(key=lambda name: (name.startswith("environment "), list({**now, **before}).index(name)))
    told = [_change(name, before.get(name), now.get(name)) for name in names[:most]]
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return "; ".join([*told, *more])


def _change(name: str, before: str | None, now: str | None) -> str:
    was, is_now = (_bare(value) for value in (before, now))
    if name.startswith(("file ", "environment ")) and before is not None and now is not None and was == is_now:
        return f"{name} is another"
    if before is None or now is None:
        return f"{name} is {'new' if before is None else 'gone'}"
    return f"{name} is not what it was" if was == is_now else f"{name.removeprefix('package ')}: {was} -> {is_now}"


def _bare(value: str | None) -> str:
    """Without the digits that stand for it, and not too long."""
    words = (value or "").partition(" [")[0] if value is None or not value.startswith("[") else ""
    return words if len(words) <= 80 else f"{words[:77]}..."
