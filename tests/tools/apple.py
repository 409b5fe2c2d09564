"""Checks of a program for macOS what the system checks before it starts it: apple.py PROGRAM MACOS_VERSION

The program is one Mach-O file of 64 bits. It has to run on the version of macOS and later ones, and load libraries of the system alone. For
arm64 it has to be signed, be it ad hoc, with the SHA-256 of each of its pages; for x86-64 macOS starts what is not signed, too.
"""

import hashlib
import struct
import sys
from pathlib import Path

MAGIC = 0xFEEDFACF
HEADER_BYTES = 32
ARM64 = 0x0100000C

# Load commands.
LIBRARIES = (0xC, 0x80000018, 0x8000001F)
SIGNATURE = 0x1D
BUILD_VERSION = 0x32

# Parts of a signature.
SUPER_BLOB = 0xFADE0CC0
CODE_DIRECTORY = 0xFADE0C02
SHA256 = 2

OF_THE_SYSTEM = ("/usr/lib/", "/System/Library/Frameworks/")


def commands(program):
    """The load commands: number, and bytes."""
    magic, _, _, _, count = struct.unpack_from("<5I", program)
    if magic != MAGIC:
        sys.exit("not a program of macOS with 64 bits")
    at = HEADER_BYTES
    for _ in range(count):
        command, size = struct.unpack_from("<2I", program, at)
        yield command, program[at : at + size]
        at += size


def unsigned_pages(program, start):
    """How many pages have another digest than the signature at an offset says."""
    magic, _, count = struct.unpack_from(">3I", program, start)
    offsets = [struct.unpack_from(">2I", program, start + 12 + 8 * index)[1] for index in range(count)]
    directories = [start + offset for offset in offsets if struct.unpack_from(">I", program, start + offset)[0] == CODE_DIRECTORY]
    if magic != SUPER_BLOB or not directories:
        sys.exit("the signature has no digests of pages")
    at = directories[0]
    hashes, _, _, count, limit = struct.unpack_from(">5I", program, at + 16)
    size, kind, _, page = struct.unpack_from(">4B", program, at + 36)
    if kind != SHA256 or limit != start:
        sys.exit("the signature is not of the whole program, by SHA-256")
    pages = [program[index << page : min((index + 1) << page, limit)] for index in range(count)]
    signed = [program[at + hashes + index * size : at + hashes + (index + 1) * size] for index in range(count)]
    return sum(hashlib.sha256(page).digest() != digest for page, digest in zip(pages, signed))


def main(path, version):
    program = memoryview(Path(path).read_bytes())
    found = list(commands(program))
    named = [bytes(text[struct.unpack_from("<I", text, 8)[0] :]).rstrip(b"\0").decode() for command, text in found if command in LIBRARIES]
    if foreign := [name for name in named if not name.startswith(OF_THE_SYSTEM)]:
        sys.exit(f"it loads {foreign}, which no system has")
    oldest = [struct.unpack_from("<I", text, 12)[0] for command, text in found if command == BUILD_VERSION]
    if oldest != [int(version.split(".")[0]) << 16]:
        sys.exit(f"it is for macOS {[number >> 16 for number in oldest]} and later, not for {version}")
    signatures = [struct.unpack_from("<I", text, 8)[0] for command, text in found if command == SIGNATURE]
    if len(signatures) > 1:
        sys.exit(f"it has {len(signatures)} signatures: macOS reads one")
    if not signatures and struct.unpack_from("<I", program, 4)[0] == ARM64:
        sys.exit("it is not signed: macOS ends it at once")
    if signatures and (wrong := unsigned_pages(program, signatures[0])):
        sys.exit(f"{wrong} pages have another digest than the signature says: macOS ends it at once")
    signed = "signed" if signatures else "not signed"
    print(f"{path}: for macOS {version} and later, {signed}, with {len(named)} libraries of the system", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: apple.py PROGRAM MACOS_VERSION")
    main(*sys.argv[1:])
