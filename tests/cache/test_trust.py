"""Which folders and files are trusted, by their owners and modes."""

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest

from vtakit.cache import trust
from vtakit.cache.trust import distrust, make_private, trusted_bytes

OTHER = 65_533  # a user and a group that nobody here has
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "cache" / "rtl"
    make_private(made)
    return made


def test_folders_are_made_for_this_user_alone(folder):
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert distrust(folder) == ""
    make_private(folder)  # it is there


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_trusted(folder, level, mode):
    """Be it the folder itself or one above it."""
    writable = [folder, folder.parent][level]
    writable.chmod(mode)
    if os.geteuid() == 0:
        os.chown(writable, -1, OTHER)
    else:
        mode |= 0o002  # a user's own group may be a private one
        writable.chmod(mode)
    who = "every user" if mode & 0o002 else f"the group {OTHER}"
    assert distrust(folder) == f"{who} can write to '{writable}': chmod go-w '{writable}'"
    writable.chmod(0o755)
    assert distrust(folder) == ""


@as_root
@pytest.mark.parametrize("level", [0, 1])
def test_a_folder_of_somebody_else_is_not_trusted(folder, level):
    foreign = [folder, folder.parent][level]
    os.chown(foreign, OTHER, -1)
    assert distrust(folder) == f"'{foreign}' belongs to user {OTHER} and this process runs as root (user 0)"


@as_root
def test_a_user_trusts_root_and_not_other_users(folder, monkeypatch):
    monkeypatch.setattr(trust.os, "geteuid", lambda: OTHER)
    assert distrust(folder) == ""
    os.chown(folder, 1, -1)
    assert "belongs to daemon (user 1) and this process runs as user 65533" in distrust(folder)


def test_a_sticky_folder_on_the_way_is_trusted_and_as_the_cache_is_not(folder):
    folder.parent.chmod(0o1777)
    assert distrust(folder) == ""
    assert "every user can write" in distrust(folder.parent)


@as_root
def test_a_group_of_ones_own_is_not_somebody_else(folder):
    folder.chmod(0o770)
    os.chown(folder, -1, 0)
    assert distrust(folder) == ""
    trust._is_own_group.cache_clear()


def test_a_group_that_others_have_first_is_theirs_too(monkeypatch):
    me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(pwd.getpwuid(os.geteuid()).pw_gid)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((me.pw_name, "x", number, [])))
    for others, own in (([], True), ([("other", "x", OTHER, group.gr_gid, "", "/", "")], False)):
        monkeypatch.setattr(pwd, "getpwall", lambda others=others: [me, *map(pwd.struct_passwd, others)])
        assert trust._is_own_group.__wrapped__(group.gr_gid, me.pw_uid) is own


@as_root
def test_a_user_without_a_name_is_not_trusted_outside_of_namespaces(folder, tmp_path, monkeypatch):
    """In a namespace it stands for users whom that does not map, such as root on the way to a home folder."""
    nobody = int(Path("/proc/sys/kernel/overflowuid").read_text())
    os.chown(folder.parent, nobody, -1)
    for text, words in (("0 0 4294967295\n", f"(user {nobody})"), ("0 1000 1\n1 100000 65536\n", "")):
        (tmp_path / "uid_map").write_text(text)
        monkeypatch.setattr(trust, "_UID_MAP", tmp_path / "uid_map")
        trust._unmapped.cache_clear()
        assert words in distrust(folder) if words else distrust(folder) == ""
    os.chown(folder, nobody, -1)
    assert f"user {nobody}" in distrust(folder)
    trust._unmapped.cache_clear()


def test_links_are_followed_and_each_folder_behind_them_counts(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("cache")
    assert distrust(link / "rtl") == ""
    assert distrust(link) == ""
    (tmp_path / "again").symlink_to(tmp_path / "link" / ".." / "cache" / "rtl")
    assert distrust(tmp_path / "again") == ""
    folder.parent.chmod(0o777)
    for path in (link, link / "rtl", tmp_path / "again"):
        assert f"'{folder.parent}'" in distrust(path)


@as_root
def test_a_link_of_somebody_else_is_not_trusted(folder, tmp_path):
    """In a sticky folder they could make it lead elsewhere at any time."""
    link = tmp_path / "link"
    link.symlink_to(folder)
    os.lchown(link, OTHER, -1)
    assert f"'{link}' belongs to user {OTHER}" in distrust(link)


def test_links_in_a_circle_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        distrust(tmp_path / "a")


def test_a_file_is_read_if_nobody_else_can_have_written_it(folder):
    file = folder / "file"
    file.write_bytes(b"content")
    assert trusted_bytes(file) == b"content"
    file.chmod(0o666)
    with pytest.raises(PermissionError, match="every user can write"):
        trusted_bytes(file)
    file.chmod(0o644)
    (folder / "link").symlink_to(file)
    with pytest.raises(OSError, match="link"):
        trusted_bytes(folder / "link")
    os.mkfifo(folder / "pipe")
    with pytest.raises(PermissionError, match="not a regular file"):
        trusted_bytes(folder / "pipe")
    with pytest.raises(IsADirectoryError):
        trusted_bytes(folder)


@as_root
def test_a_file_of_somebody_else_is_not_read(folder):
    file = folder / "file"
    file.write_bytes(b"content")
    os.chown(file, OTHER, -1)
    with pytest.raises(PermissionError, match=f"belongs to user {OTHER}"):
        trusted_bytes(file)
