"""docs/python_api.md: the package's classes and functions with their docstrings."""

import inspect
import re
from typing import Any, Iterator

import serval

TITLE = """# Python API

Written from the docstrings (`SERVAL_WRITE_DOCS=1 make test-python`); [python.md](python.md) is the introduction.
"""
SECTIONS = ("Args", "Attributes", "Raises", "Returns")


def page() -> str:
    names = [name for name in serval.__all__ if not name.startswith("__")]
    parts = [TITLE, *(_entry(name, getattr(serval, name)) for name in names)]
    return "\n".join(parts)


def _entry(name: str, what: Any) -> str:
    parts = [f"## `{name}`\n", f"```python\n{_signature(name, what)}\n```\n", _markdown(inspect.getdoc(what) or "")]
    if inspect.isclass(what):
        parts += [_member(name, member, value) for member, value in _members(what)]
    return "\n".join(parts)


def _members(of: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that have a docstring, in the order of the source."""
    for name, value in vars(of).items():
        value = getattr(value, "__func__", value)
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)) and value.__doc__:
            yield name, value


def _member(of: str, name: str, value: Any) -> str:
    if isinstance(value, property):
        kind = inspect.signature(value.fget).return_annotation if value.fget else ""
        head = f"### `{of}.{name}`\n\n`{_plain(kind)}`\n"
    else:
        head = f"### `{of}.{name}`\n\n```python\n{_signature(name, value)}\n```\n"
    return "\n".join([head, _markdown(inspect.getdoc(value) or "")])


def _signature(name: str, what: Any) -> str:
    signature = inspect.signature(what)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    signature = signature.replace(parameters=parameters)
    if inspect.isclass(what):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    name = f"async {name}" if inspect.iscoroutinefunction(what) else name
    text = name + _plain(str(signature))
    if len(text) <= 100:
        return text
    arguments = "".join(f"    {_plain(str(p))},\n" for p in _with_markers(parameters))
    end = signature.return_annotation
    return f"{name}(\n{arguments})" + ("" if end is inspect.Signature.empty else f" -> {_plain(str(end))}")


def _with_markers(parameters: list[inspect.Parameter]) -> Iterator[Any]:
    """A star before the first parameter that has to be named."""
    starred = False
    for parameter in parameters:
        starred = starred or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        yield parameter


def _plain(text: str) -> str:
    """Annotations as they are written, which Python shows in quotes."""
    text = re.sub(r"(: |-> )'((?:[^'\\]|\\.)*)'", lambda m: m[1] + m[2].replace("\\'", "'"), text)
    return re.sub(r"(: |-> )\"([^\"]*)\"", r"\1\2", text)


def _markdown(docstring: str) -> str:
    """Sections with names become lists."""
    lines, in_section = [], False
    for line in docstring.splitlines():
        if line.rstrip(":") in SECTIONS:
            in_section = True
            lines += [f"**{line.rstrip(':')}**", ""]
        elif in_section and (item := re.match(r" {4}([\w, ]+): (.*)", line)):
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            lines.append(f"- {names}: {item[2]}")
        elif in_section and line.startswith("    "):
            lines.append("  " + line.strip())
        else:
            in_section = in_section and not line.strip()
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"
