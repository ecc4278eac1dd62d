"""Makes program files invalid (docs/program_format.md)."""

import struct

HEADER_BYTES = 61  # bytes before the machine's name
MACHINE_BYTES = 4 + 4 + 5 * 8
RECORD_BYTES, WAIT_BYTES = 128, 12


def waits_of(data):
    """Returns the offsets of a program file's waits."""
    at = HEADER_BYTES
    at += 4 + struct.unpack_from("<I", data, at)[0] + MACHINE_BYTES
    for size in (RECORD_BYTES, 4):  # instructions, queue_begin
        at += 4 + struct.unpack_from("<I", data, at)[0] * size
    count = struct.unpack_from("<I", data, at)[0]
    return range(at + 4, at + 4 + count * WAIT_BYTES, WAIT_BYTES)


def lower_a_threshold(path):
    """Lowers the first threshold above 1 by one. Returns its counter and its former value."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    for wait in waits_of(data):
        counter, threshold, _ = struct.unpack_from("<III", data, wait)
        if threshold < 2:
            continue
        struct.pack_into("<I", data, wait + 4, threshold - 1)
        with open(path, "wb") as file:
            file.write(data)
        return counter, threshold
    raise AssertionError("no instruction waits for two others")
