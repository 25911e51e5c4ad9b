"""Signatures of module files: Ed25519 over every byte of the file, appended to it (`trailer`).

A signature covers a context, the file and the public key. A checksum shows damage; a signature shows who made the file. The
public key in the file only names the signer in messages: a file is accepted if one of the trusted keys verifies.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from vtakit.base.errors import VtakitError, needs
from vtakit.base.limits import MAX_CONFIG_BYTES
from vtakit.base.reading import read_bytes
from vtakit.base.writing import unwritable, write_bytes
from vtakit.runtime.module_file import check_file
from vtakit.runtime.trailer import Trailer, trailer_of, unsigned

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Trusted: TypeAlias = "str | Path | Ed25519PublicKey | Sequence[str | Path | Ed25519PublicKey]"
_CONTEXT = b"vtakit module file\0"  # a signature of the same key over something else is none of a module
_EXTRA = "sign"


class SignatureError(VtakitError, ValueError):
    """A module file that is not signed by a trusted key, or a key that cannot be used."""


def verify(data: bytes, where: str, trusted: "Trusted") -> None:
    """Raise SignatureError unless one of the trusted keys has signed a module file, which messages call `where`."""
    keys = _trusted(trusted)
    with needs("verifying a signature", _EXTRA):
        from cryptography.exceptions import InvalidSignature
    trailer = trailer_of(data)
    if trailer is None:
        raise SignatureError(f"{where} is not signed, and only files that a trusted key has signed are loaded: sign it with "
                             "`vtakit sign`, or load it with recompile=True (--recompile)")
    named, signature = trailer
    message = b"".join((_CONTEXT, unsigned(data), named))
    for key in keys:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            continue
        return
    known = any(key.public_bytes_raw() == named for key in keys)
    why = "its signature is wrong: it was changed after it was signed" if known else (
        f"it is signed by the key {named.hex()[:16]}…, which is none of the trusted ones")
    raise SignatureError(f"{where} is not loaded: {why}")


def sign(path: str | Path, key: str | Path, to: str | Path | None = None) -> str:
    """Sign a module file with the private key in a PEM file, in place of a signature that it has, and return the public key.

    to : where to write the signed file; over the old one if None

    Raises SignatureError for a key that cannot be used, PackageError for a file that is no module file.
    """
    private = _private(key)
    data = read_bytes(path, "module file")
    check_file(data, f"module file {str(path)!r}")
    body = bytes(unsigned(data))
    named = private.public_key().public_bytes_raw()
    trailer = Trailer(named, private.sign(_CONTEXT + body + named))
    write_bytes(path if to is None else to, body + trailer.dump(), "module file")
    return named.hex()


def new_key(name: str | Path) -> tuple[Path, Path]:
    """Make a key: NAME.pem, which only its owner may read, to sign with, and NAME.pub.pem for those who are to trust it.

    Raises SignatureError if one of the files is there already, FileError if one cannot be written.
    """
    with needs("making a key", _EXTRA):
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    private_path, public_path = Path(f"{name}.pem"), Path(f"{name}.pub.pem")
    for path in (private_path, public_path):
        if path.exists() or path.is_symlink():
            raise SignatureError(f"the key file {str(path)!r} is there already: give another name")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    open_text = private.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    _write_new(private_path, secret, "the private key", 0o600)
    try:
        _write_new(public_path, open_text, "the public key", 0o666)
    except BaseException:
        private_path.unlink(missing_ok=True)
        raise
    return private_path, public_path


def _write_new(path: Path, data: bytes, what: str, mode: int) -> None:
    """Write a file that is not there yet, whole or not at all."""
    with unwritable(path, what):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with open(handle, "wb") as file:
                file.write(data)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _private(path: str | Path) -> "Ed25519PrivateKey":
    with needs("signing a module", _EXTRA):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    data = read_bytes(path, "key", MAX_CONFIG_BYTES, error=SignatureError)
    try:
        found = load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it has a password
        raise SignatureError(f"{str(path)!r} is no private key in PEM without a password: {_line(error)}") from None
    if not isinstance(found, Ed25519PrivateKey):
        raise SignatureError(f"{str(path)!r} is no Ed25519 key: make one with `vtakit sign --new-key NAME`")
    if Path(path).stat().st_mode & 0o077:
        warnings.warn(f"others may read the private key {str(path)!r}, and then sign as you: chmod 600 it", stacklevel=3)
    return found


def _trusted(given: object) -> "list[Ed25519PublicKey]":
    """Return public keys: of PEM files, of PEM text, or as they are."""
    with needs("verifying a signature", _EXTRA):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not several:
        raise SignatureError("trusted names no key: give the path of a public key, or several")
    found = []
    for each in several:
        if isinstance(each, Ed25519PublicKey):
            found.append(each)
        elif isinstance(each, str | Path):
            found.append(_public(each))
        else:
            raise SignatureError(f"trusted has {each!r:.40}: give the path of a public key in PEM, or several")
    return found


def _public(given: str | Path) -> "Ed25519PublicKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    is_text = isinstance(given, str) and given.lstrip().startswith("-----BEGIN")
    what = "the text of a trusted key" if is_text else f"{str(given)!r}"
    data = str(given).encode() if is_text else read_bytes(given, "trusted key", MAX_CONFIG_BYTES, error=SignatureError)
    try:
        found = load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        cure = "; a private key is not to be given away: give NAME.pub.pem" if b"PRIVATE KEY" in data else ""
        raise SignatureError(f"{what} is no public key in PEM: {_line(error)}{cure}") from None
    if not isinstance(found, Ed25519PublicKey):
        raise SignatureError(f"{what} is no Ed25519 key: make one with `vtakit sign --new-key NAME`")
    return found


def _line(error: BaseException) -> str:
    return " ".join(str(error).partition("See http")[0].split())[:120] or type(error).__name__
