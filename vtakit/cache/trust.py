"""Decide whether a folder or file can have been written by somebody else.

Trusted is what belongs to this user or to root and what nobody else can write. On the way to a folder, sticky folders such as
/tmp are trusted too: others cannot replace what this user has made there. A group that has this user as its only member is not
somebody else.
"""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PRIVATE = 0o700
_MOST_LINKS = 40  # on one path, as in Linux
_UNMAPPED = Path("/proc/sys/kernel/overflowuid")  # the owner that a user namespace shows for users whom it does not map
_UID_MAP = Path("/proc/self/uid_map")
_ALL_USERS = (1 << 32) - 1


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for this user alone. Raises `OSError`."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(PRIVATE, exist_ok=True)


def distrust(folder: Path) -> str:
    """Return why a folder is not trusted and what would cure that; an empty string if it is.

    Every folder and symbolic link on the way counts: who can write one of them can put another folder in place of this one.
    Raises `OSError` if there is no such folder.
    """
    steps = list(_steps(folder))
    for path, info in steps[:-1]:
        if why := _suspicion(path, info, leads_on=True):
            return why
    path, info = steps[-1]
    return _suspicion(path, info, leads_on=False)


def trusted_bytes(path: Path) -> bytes:
    """Return the content of a file that nobody else can have written. Raises `OSError` for any other.

    The file is opened once, and it is the open file whose owner and mode are checked.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not keep us waiting
    with os.fdopen(handle, "rb") as file:  # which refuses a folder
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise PermissionError(errno.EPERM, "not a regular file", str(path))
        if why := _suspicion(path, info, leads_on=False):
            raise PermissionError(errno.EPERM, why, str(path))
        return file.read()


def _steps(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder and link that leads to `folder`, from the root on, and `folder` itself at the end."""
    at, links = Path(folder.anchor or "/"), 0
    todo = list(folder.absolute().parts[:0:-1])
    yield at, at.lstat()
    while todo:
        name = todo.pop()
        if name == "..":
            at = at.parent
            yield at, at.lstat()
            continue
        step = at / name
        info = step.lstat()
        yield step, info
        if not stat.S_ISLNK(info.st_mode):
            at = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
        target = step.readlink()
        at = Path(target.anchor) if target.is_absolute() else at
        todo += [part for part in reversed(target.parts) if part != target.anchor]
        if not todo:
            yield at, at.lstat()


def _suspicion(path: Path, info: os.stat_result, *, leads_on: bool) -> str:
    """Return why a folder, file or link is not trusted; `leads_on` if it is only passed on the way to another."""
    me = os.geteuid()
    owners = {me, 0, *(_unmapped() if leads_on else ())}
    if info.st_uid not in owners:
        return f"'{path}' belongs to {_user(info.st_uid)} and this process runs as {_user(me)}"
    if stat.S_ISLNK(info.st_mode) or (leads_on and info.st_mode & stat.S_ISVTX):
        return ""
    if info.st_mode & stat.S_IWOTH:
        return f"every user can write to '{path}': chmod go-w '{path}'"
    if info.st_mode & stat.S_IWGRP and not _is_own_group(info.st_gid, me):
        return f"the group {_group(info.st_gid)} can write to '{path}': chmod go-w '{path}'"
    return ""


@cache
def _unmapped() -> tuple[int, ...]:
    """Return the owner of what belongs to users outside of this process's user namespace; none outside of namespaces."""
    try:
        maps_all = [line.split() for line in _UID_MAP.read_text().splitlines()] == [["0", "0", str(_ALL_USERS)]]
        return () if maps_all else (int(_UNMAPPED.read_text()),)
    except (OSError, ValueError):
        return ()


@cache
def _is_own_group(group: int, user: int) -> bool:
    """Return whether a group is that which some systems make for each user, with no other member.

    Members are those whom the group lists, and those whose first group it is.
    """
    try:
        account, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    members = {*found.gr_mem, *(each.pw_name for each in pwd.getpwall() if each.pw_gid == group)}
    return account.pw_gid == group and found.gr_name == account.pw_name and members <= {account.pw_name}


def _user(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return f"{grp.getgrgid(number).gr_name} ({number})"
    except KeyError:
        return str(number)
