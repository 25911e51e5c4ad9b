"""Sign a module file, or make a key to sign with.

  vtakit sign --new-key NAME                      NAME.pem, which only you may read, and NAME.pub.pem
  vtakit sign model.vtak --key NAME.pem           the signature becomes a part of the file
  vtakit run model.vtak --trusted NAME.pub.pem    runs it only if that key has signed it

A module file holds machine code, which runs with the rights of whoever loads it. A signature (Ed25519) shows who made the file,
and that nobody has changed it since. docs/files.md says what else helps with files from others.
"""

import argparse
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("module", nargs="?", type=Path, metavar="FILE.vtak", help="module file to sign")
    parser.add_argument("--key", type=Path, metavar="KEY.pem", help="private key to sign with")
    parser.add_argument("-o", "--output", type=Path, metavar="SIGNED.vtak", help="the signed file (default: FILE.vtak itself)")
    parser.add_argument("--new-key", metavar="NAME", help="make a key: NAME.pem and NAME.pub.pem")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.runtime.signing import new_key, sign

    if (args.new_key is None) == (args.module is None and args.key is None):
        raise VtakitError("give either FILE.vtak with --key KEY.pem, or --new-key NAME")
    if args.new_key is not None:
        private, public = new_key(args.new_key)
        say(f"{private}: private key, readable by you only; keep it secret")
        say(f"{public}: public key, for those who are to trust it")
        return 0
    if args.module is None or args.key is None:
        lacking = "FILE.vtak" if args.module is None else "--key KEY.pem"
        raise VtakitError(f"give {lacking} too: vtakit sign FILE.vtak --key KEY.pem")
    named = sign(args.module, args.key, args.output)
    say(f"{args.output or args.module}: signed by the key {named[:16]}…")
    return 0
