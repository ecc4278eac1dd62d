"""The package's exception."""

from typing import Literal

ErrorKind = Literal["runtime", "usage", "out_of_memory", "device_fault"]


class Error(RuntimeError):
    """What went wrong, in one line: the file or parameter, what was found, the limit.

    Attributes:
        kind: "runtime" (a file or model is missing, damaged or unsupported), "usage" (a parameter is out of range),
            "out_of_memory" (of the host, the GPU or the KV cache) or "device_fault".
        exit_code: with which the command line would end, 1 to 4.
    """

    def __init__(self, message: str, kind: ErrorKind = "runtime", exit_code: int = 1) -> None:
        super().__init__(message)
        self.kind = kind
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type, tuple[str, ErrorKind, int]]:
        return (Error, (str(self), self.kind, self.exit_code))


KINDS: dict[int, ErrorKind] = {1: "runtime", 2: "usage", 3: "out_of_memory", 4: "device_fault"}
