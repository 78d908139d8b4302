"""Parts of a StableHLO module: consecutive operations, as a separate module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jax.extend.mlir import ir
from jax.interpreters import mlir

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_FILE = re.compile(rf"(?:{_TEXT}\()?{_TEXT}:(\d+):\d+")
_NUMBERED = re.compile(r"_\d+$")
_CALLED = re.compile(r"@([\w.$]+|\"[^\"]*\")")
_CONSTANT = "stablehlo.constant"
_BODIES = ("stablehlo.while", "stablehlo.case", "stablehlo.if")
"""Operations whose regions are programs; the regions of other operations combine two numbers."""


class Part(NamedTuple):
    """Consecutive operations of a block, without its constants and terminator."""

    block: Any
    first: int
    end: int


class Modules:
    """A module, and modules made from its parts."""

    def __init__(self, text: str) -> None:
        self._context = mlir.make_ir_context()
        self._module: Any = ir.Module.parse(text, self._context)
        self._functions = {_name(each): each for each in self._module.body.operations}

    def whole(self) -> Part:
        """Its main function."""
        return self._all(self._functions["main"].operation.regions[0].blocks[0])

    def operations(self, part: Part) -> list[Any]:
        """The operations of a part."""
        return _rows(part.block)[part.first : part.end]

    def inside(self, part: Part) -> list[Part]:
        """The programs that a part calls or contains, if it is a single operation."""
        if part.end - part.first != 1:
            return []
        (row,) = self.operations(part)
        holder = row if row.name in _BODIES else None
        if row.name == "func.call":
            holder = self._functions.get(_called(row))
        if holder is None:
            return []
        regions = holder.operation.regions
        bodies = [self._all(block) for region in regions for block in region.blocks]
        return [body for body in bodies if body.end]

    def text(self, part: Part, locations: bool = False) -> str:
        """A part as a module: values from outside become arguments."""
        rows = self.operations(part)
        made = {result for row in rows for result in row.results}
        constants: list[Any] = []
        given: list[Any] = []
        for value in dict.fromkeys(value for row in rows for value in _outside(row)):
            if value in made:
                continue
            owner = value.owner
            is_constant = not isinstance(owner, ir.Block) and owner.name == _CONSTANT
            (constants if is_constant else given).append(value)
        results = self._results(part, rows)
        with self._context, ir.Location.unknown(self._context):
            attributes = self._module.operation.attributes
            module: Any = ir.Module.create()
            for name in _names(attributes):
                module.operation.attributes[name] = attributes[name]
            main = self._main(module, [*given], [value.type for value in results])
            held = dict(zip(given, main.arguments, strict=True))
            with ir.InsertionPoint(main):
                for row in (*(value.owner for value in constants), *rows):
                    copy = row.operation.clone()
                    _connect(copy, held)
                    held.update(zip(row.results, copy.results, strict=True))
                ends = [held[value] for value in results]
                ir.Operation.create("func.return", operands=ends)
            self._add_called(module)
        text: str = module.operation.get_asm(enable_debug_info=locations)
        return text

    def _all(self, block: Any) -> Part:
        return Part(block, 0, len(_rows(block)))

    def _results(self, part: Part, rows: list[Any]) -> list[Any]:
        later = list(part.block.operations)
        after = later[later.index(rows[-1]) + 1 :] if rows else later
        used = {value for row in after for value in _outside(row)}
        kept = [value for row in rows for value in row.results if value in used]
        return kept or list(rows[-1].results)

    def _main(self, module: Any, given: list[Any], results: list[Any]) -> Any:
        types = [value.type for value in given]
        attributes: dict[str, Any] = {
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, results)),
            "sym_visibility": ir.StringAttr.get("public"),
        }
        with ir.InsertionPoint(module.body):
            made = ir.Operation.create("func.func", attributes=attributes, regions=1)
        return made.regions[0].blocks.append(*types)

    def _add_called(self, module: Any) -> None:
        """Add the functions that the module calls, directly or indirectly."""
        added: set[str] = {"main"}
        waiting = list(module.body.operations)
        while waiting:
            text = waiting.pop().operation.get_asm(large_elements_limit=16)
            for name in (found.strip('"') for found in _CALLED.findall(text)):
                if name in added or name not in self._functions:
                    continue
                added.add(name)
                with ir.InsertionPoint(module.body):
                    waiting.append(self._functions[name].operation.clone())


class At(NamedTuple):
    """A source line that created an operation."""

    file: str
    line: int
    function: str


def places(operation: Any) -> list[At]:
    """The source lines that created an operation, innermost first."""
    return [
        At(file, int(line), function.rpartition(".")[2])
        for function, file, line in _FILE.findall(str(operation.location))
    ]


def called(operation: Any) -> str | None:
    """The name of the function that an operation calls, as written in its definition."""
    if operation.name != "func.call":
        return None
    return _NUMBERED.sub("", _called(operation))


def _rows(block: Any) -> list[Any]:
    rows = [row for row in block.operations if row.operation.name != _CONSTANT]
    return [row.operation for row in rows[:-1]]


def _outside(row: Any) -> Iterator[Any]:
    """The operands of an operation, and the outside values that its regions use."""
    operation = row.operation
    yield from operation.operands
    own: set[Any] = set()
    for each, arguments in _within(operation):
        own.update(arguments)
        if each is not None:
            for value in each.operands:
                if value not in own:
                    yield value
            own.update(each.results)


def _within(operation: Any) -> Iterator[tuple[Any, Iterable[Any]]]:
    """All operations nested in an operation, in order, and the arguments of their blocks."""
    for region in operation.regions:
        for block in region.blocks:
            yield None, block.arguments
            for row in block.operations:
                yield row.operation, ()
                yield from _within(row.operation)


def _connect(operation: Any, held: dict[Any, Any]) -> None:
    for each in (operation, *(one for one, _ in _within(operation) if one is not None)):
        operands = each.operands
        for index, value in enumerate(operands):
            if (there := held.get(value)) is not None:
                operands[index] = there


def _name(function: Any) -> str:
    return str(function.operation.attributes["sym_name"]).strip('"')


def _called(row: Any) -> str:
    return str(row.attributes["callee"]).lstrip("@").strip('"')


def _names(attributes: Any) -> list[str]:
    # Iterates over names on newer releases, over pairs on older ones.
    return [each if isinstance(each, str) else each.name for each in attributes]
