"""The package's exception."""

from typing import Literal

ErrorKind = Literal["runtime", "usage", "out_of_memory", "device_fault"]

_KINDS: dict[int, ErrorKind] = {1: "runtime", 2: "usage", 3: "out_of_memory", 4: "device_fault"}
USAGE = 2


class Error(RuntimeError):
    """What went wrong, in one line: the file or parameter, what was found, the limit.

    Attributes:
        exit_code: with which the command line would end, 1 to 4.
        kind: its name: "runtime" (a file or model is missing, damaged or unsupported), "usage" (a parameter is out of
            range), "out_of_memory" (of the host, the GPU or the KV cache) or "device_fault".
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    @property
    def kind(self) -> ErrorKind:
        return _KINDS[self.exit_code]

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return (Error, (str(self), self.exit_code))
