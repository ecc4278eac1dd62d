#!/usr/bin/env python3
"""Manages the inputs that the fuzzers have found: one archive corpus/TARGET.tar.gz for each target. The named seeds,
corpus/TARGET/seed-*, are separate files (make_seeds.py writes them).

usage: tests/fuzz/corpus.py add TARGET FILE...    adds files to the archive, each named by the SHA-1 of its bytes
       tests/fuzz/corpus.py unpack TARGET FOLDER  writes the archive's inputs to a folder
       tests/fuzz/corpus.py pack TARGET FOLDER    replaces the archive by the files of a folder

Equal inputs give equal archives, byte for byte, regardless of their order.
"""

import gzip
import hashlib
import io
import pathlib
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent


def archive_of(target):
    return HERE / "corpus" / f"{target}.tar.gz"


def name_of(data):
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def read(target):
    """Returns the inputs of a target's archive by name; empty if there is no archive yet."""
    if not archive_of(target).exists():
        return {}
    with tarfile.open(archive_of(target), "r:gz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


def write(target, inputs):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(inputs.items()):
            member = tarfile.TarInfo(name)  # owner 0, time 0
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    archive_of(target).write_bytes(gzip.compress(tar.getvalue(), compresslevel=9, mtime=0))


def named(files):
    contents = (pathlib.Path(file).read_bytes() for file in files)
    return {name_of(data): data for data in contents}


def add(target, *files):
    inputs = read(target)
    new = {name: data for name, data in named(files).items() if name not in inputs}
    write(target, inputs | new)
    print(f"{len(new)} inputs added, {len(inputs) + len(new)} in {archive_of(target)}")


def unpack(target, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in read(target).items():
        (folder / pathlib.PurePath(name).name).write_bytes(data)


def pack(target, folder):
    write(target, named(file for file in pathlib.Path(folder).iterdir() if file.is_file()))


def main(arguments):
    commands = {"add": (add, 2, None), "unpack": (unpack, 2, 2), "pack": (pack, 2, 2)}
    command, *rest = arguments or [""]
    run, least, most = commands.get(command, (None, 0, 0))
    if run is None or len(rest) < least or (most is not None and len(rest) > most):
        print(__doc__, file=sys.stderr)
        return 2
    run(*rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
