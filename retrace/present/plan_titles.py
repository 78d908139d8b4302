"""Titles of the steps of a plan: briefly, what each asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrace.model import advice as model
from retrace.model.advice import Advice
from retrace.model.parts import OF_ARGUMENTS, OF_CONTEXT, OF_OPTIONS
from retrace.plan.step import Change, Proposal, Sizes, Step
from retrace.present.advice_operations import few_sizes_title, sizes_on_lines
from retrace.present.passing_words import arguments
from retrace.present.words import as_objects, few_names, listed, quoted
from retrace.reason.held import is_below
from retrace.reason.rules import root


def title(proposal: Proposal) -> str:
    """A few words for a table."""
    changes = proposal.changes
    if isinstance(proposal.advice, model.FewMapped) and any(c.family == "shape" for c in changes):
        changes = tuple([c for c in changes if c.family not in OF_CONTEXT])  # they follow
    trees = {path for c in changes if c.family == "tree" for path in c.paths}
    texts: dict[str, tuple[str, ...]] = {}
    named: set[str] = set()
    said: set[str] = set()
    for change in changes:
        if change.family == "meta" and trees.issuperset(change.paths):
            continue  # another container has its own static data
        words, what = _title(change, proposal), _what(change)
        if words in said:
            continue  # the advice is about both changes
        said.add(words)
        if change.paths and what in named:
            # A second change of the same arguments: their names are long, and known by now.
            words = words.replace(what, "it" if len(change.paths) == 1 else "them")
        named.add(what)
        if change.paths and words.count(what) == 1:
            words = words.replace(what, _HERE)
        texts[words] = (*texts.get(words, ()), *change.paths)
    return " and ".join(words.replace(_HERE, few_names(paths)) for words, paths in texts.items())


_HERE = "\0"
"""Where the names of several changes of one kind stand, in a title of all of them."""


def titles(steps: Sequence[Step]) -> list[str]:
    """A title for each step; titles that would be equal get something to distinguish them."""
    found = [title(step.proposal) for step in steps]
    for apart in (_by_function, _by_line, _by_number):
        groups: dict[str, list[int]] = {}
        for index, named in enumerate(found):
            groups.setdefault(named, []).append(index)
        for members in groups.values():
            if len(members) > 1:
                texts = [apart(steps[index], nth) for nth, index in enumerate(members, 1)]
                for index, text in zip(members, texts, strict=True):
                    if len(set(texts)) > 1:
                        found[index] = _with(found[index], text)
    return found


def _with(named: str, text: str) -> str:
    """A title with what distinguishes it: `on line 5` rather than `on this line, line 5`."""
    if text.startswith(", line ") and "this line" in named:
        return named.replace("this line", text.removeprefix(", "))
    return f"{named}{text}"


def _by_function(step: Step, _: int) -> str:
    operations = step.proposal.changes[0].family.startswith("eager")
    return "" if operations else f" of {few_names(step.functions)}"


def _by_line(step: Step, _: int) -> str:
    return "" if step.proposal.line is None else f", line {step.proposal.line}"


def _by_number(_: Step, nth: int) -> str:
    return f" ({nth})"


def _title(change: Change, proposal: Proposal) -> str:
    if isinstance(proposal.advice, model.OneKeyType) and change.family in ("dtype", "rank"):
        return f"one way to create {_what(change)}"
    if proposal.sizes is not None and change.family == "shape":
        return _sized(proposal.sizes)
    if (pairs := proposal.pairs) is not None and change.family == "shape":
        number = len(pairs.chosen.sizes)
        arguments = dict.fromkeys(name.rpartition(" axis ")[0] for name in pairs.axes)
        text = "one size" if number == 1 else f"{number} sizes"
        return f"{text} for {few_names(tuple(arguments))} ({len(pairs.seen)} seen)"
    for kind, words in _BY_ADVICE:
        if isinstance(proposal.advice, kind) and change.family in _SHOWN_BY_ADVICE:
            if change.family in _OF_ARRAYS and not _is_about(proposal.advice, change):
                break
            return words(change, proposal.advice)
    if change.family == "function":
        return _function(change, proposal.advice)
    body = proposal.advice if isinstance(proposal.advice, model.DefineBodyOnce) else None
    if body is not None and (body.package or body.holds):
        return f"jit once around the loop of {_who(change)}"
    if body is not None and body.partial:
        return f"create the partial of {_who(change)} once, outside"
    if body is not None:
        return f"define {few_names(body.bodies)} once, outside"
    words_of = _TITLES.get(change.family)
    return change.family if words_of is None else words_of(change)


_OF_ARRAYS = ("dtype", "sharding", "weak_type")


def _is_about(advice: Advice, change: Change) -> bool:
    """Whether the advice names an array that changed, or gives no names at all."""
    roots = {root(path) for path in advice.paths}
    return not roots or any(root(path) in roots for path in change.paths)


def _sized(sizes: Sizes) -> str:
    argument, _, axis = sizes.names[0].rpartition(" axis ")
    argument = argument.rpartition(": ")[2]  # without the function, where axes differ
    name = quoted(argument) if axis == "0" else f"{quoted(argument)} axis {axis}"
    seen, number = len(sizes.seen), len(sizes.chosen.sizes)
    if sizes.grows:
        return f"preallocate {name} ({sizes.seen[-1] + 1:,} long)"
    return f"{'one size' if number == 1 else f'{number} sizes'} for {name} ({seen} seen)"


def _who(change: Change) -> str:
    return few_names(change.functions)


def _what(change: Change) -> str:
    return few_names(change.paths)


def _function(change: Change, advice: Advice | None) -> str:
    if isinstance(advice, model.JitAndPass) and advice.inject:
        held = (*advice.traced, *advice.static)
        passed = f", pass {few_names(held)}" if held else ""
        return f"create {_who(change)} once{passed}, inject hyperparameters"
    if isinstance(advice, model.Library) and advice.holder:
        return f"keep one {quoted(advice.holder)}"
    if isinstance(advice, model.JitForEach) and advice.injects:
        return f"create the optimizer of {_who(change)} once, inject hyperparameters"
    if isinstance(advice, model.JitForEach) and advice.inside:
        made = f"create {few_names(advice.paths)} inside {_who(change)}"
        return f"{made}, pass {few_names(advice.traced)}"
    if isinstance(advice, model.JitForEach):
        each = f"one {_who(change)} for each {few_names(advice.paths)}"
        once = f"create {few_names(advice.paths)} once" if advice.same else each
        arrays = ["the arrays that it reads"] if advice.reads else []
        held = (*advice.traced, *advice.static)
        passed = [few_names(held), *arrays] if held else arrays
        return f"{once}, pass {' and '.join(passed)}" if passed else once
    held = change.held
    if isinstance(advice, model.JitAndPass):
        # What cannot be passed, such as a function that it holds, is left out of these.
        held = (*advice.traced, *advice.static)
    if isinstance(advice, model.JitAndPass) and advice.reads:
        also = f"{few_names(held)} and " if held else ""
        return f"pass {also}the arrays that {_who(change)} reads"
    if held and isinstance(advice, model.OfFunction) and advice.maker:
        return f"call {quoted(advice.maker)} in a jitted function, pass {few_names(held)}"
    if held:
        is_static = isinstance(advice, model.JitAndPass) and not advice.traced
        what = arguments(held, "static" if is_static else "")
        return f"pass {few_names(held)} as {what} of {_who(change)}"
    return f"create {_made(change, advice)}{_who(change)} once"


def _made(change: Change, advice: Advice | None) -> str:
    """`transformed `, where not the user's function is created again but what JAX made of it."""
    match advice:
        case model.OfFunction(what=model.What.TRANSFORMED | model.What.WRAPPED as made):
            return f"the {made.value} " if len(change.functions) == 1 else ""
        case _:
            return ""


def _static(change: Change) -> str:
    if change.programs:
        seen = f"{change.seen} values, {change.programs} programs"
        return f"pass what {_what(change)} decides ({seen})"
    if change.to_one:
        return f"one value of {_what(change)} ({change.seen} seen)"
    return f"one object for {few_names(as_objects(change.paths))}"


def _reused(change: Change, advice: Advice) -> str:
    if isinstance(advice, model.ReuseObject) and advice.each:
        return f"one {_what(change)} for each {few_names(advice.each)}"
    if not change.programs:
        return _static(change)
    return f"create {_what(change)} once ({change.seen} seen, {change.programs} programs)"


def _compared(change: Change, advice: Advice) -> str:
    if not isinstance(advice, model.CompareByValue):
        return _static(change)
    known = {root(path) for path in advice.paths}
    if rest := tuple(dict.fromkeys(root(p) for p in change.paths if root(p) not in known)):
        # They were new at the same calls: to keep one alone saves nothing.
        kept = _compared(change._replace(paths=advice.paths), advice)
        return f"{kept} and one object for {few_names(rest)}"
    if advice.package is not None:
        kind = quoted(advice.type.rpartition(".")[2])
        return f"keep one {kind} for equal settings ({change.seen} created)"
    if advice.held or advice.alone:  # nothing compares these by value
        kept = f"one {_what(change)} for each setting"
        return kept if advice.varies else f"one object for {_what(change)}"
    seen = f" ({change.seen} values, {change.programs} programs)" if change.programs else ""
    return f"compare {_what(change)} by value{seen}"


def _held(change: Change, advice: Advice) -> str:
    held = advice.held if isinstance(advice, model.PassHeld) else ()
    if held:
        return f"pass {listed([quoted(one) for one in held])} along with {_what(change)}"
    rest = [one for one in change.paths if one not in advice.paths]
    few = f", few values of {few_names(rest)}" if rest else ""
    return f"pass what {few_names(advice.paths)} hold{'' if len(advice.paths) > 1 else 's'}{few}"


def _left_out(_: Change, advice: Advice) -> str:
    if isinstance(advice, model.LeaveOutValue) and (advice.read_by or advice.passing):
        return f"pass `{advice.name}` what it reads"
    if isinstance(advice, model.LeaveOutValue) and advice.read_with:
        return f"one value of {few_names(advice.paths)} with each {few_names(advice.read_with)}"
    return f"leave {few_names(advice.paths)} out of the key"


def _deciding(change: Change, advice: Advice) -> str:
    """What decides the program, which may be a part of what changed, with fewer values."""
    inside = _is_inside(change, advice)
    return f"fewer values of {few_names(advice.paths)}" if inside else _static(change)


def _trips(_: Change, advice: Advice) -> str:
    return f"pass {few_names(advice.paths)} as {arguments(advice.paths)}"


def _is_inside(change: Change, advice: Advice) -> bool:
    return bool(advice.paths) and all(is_below(path, change.paths) for path in advice.paths)


def _few(change: Change, advice: Advice) -> str:
    if _is_inside(change, advice):
        return _deciding(change, advice)
    if {*map(root, change.paths)}.isdisjoint(map(root, advice.paths)):
        return _static(change)  # it changed along with what the advice is about
    is_flag = isinstance(advice, model.FewValues) and advice.why == "flags"
    number = "one value" if is_flag else "fewer values"
    return f"{number} of {_what(change)} ({change.seen} seen)"


def _init(advice: Advice) -> str:
    if isinstance(advice, model.JitInit) and advice.name is not None:
        return f"jit `{advice.name}` ({advice.package})"
    return "jit what creates this module"


def _inject(advice: Advice) -> str:
    holder = advice.holder if isinstance(advice, model.InjectHyperparams) else ""
    return f"inject the hyperparameters of {quoted(holder)}"


def _to_array(advice: Advice) -> str:
    if isinstance(advice, model.ToArray) and advice.in_tree and not advice.by_type:
        leaf = "a leaf" if len(advice.paths) == 1 else "leaves"
        return f"make {few_names(advice.paths)} {leaf}"
    if not isinstance(advice, model.ToArray) or advice.in_tree or advice.mixed:
        return f"make {few_names(advice.paths)} an array"
    one = f", and one {few_names(as_objects(advice.kept))}" if advice.kept else ""
    kind = "array" if advice.by_type else "argument"
    what = f"an {kind}" if len(advice.paths) == 1 else f"{kind}s"
    return f"pass {few_names(advice.paths)} as {what}{one}"


def _placed(change: Change, advice: Advice) -> str:
    if isinstance(advice, model.PlaceFirst) and (advice.later or advice.always):
        it = "it" if len(change.paths) == 1 else "them"
        return f"place {_what(change)} where other calls have {it}"
    return f"place {_what(change)} before the first call"


def _one_mesh(change: Change, advice: Advice) -> str:
    specs = " and spec" if isinstance(advice, model.OneMesh) and advice.specs else ""
    return f"one mesh{specs} for {_what(change)}"


def _mapped(change: Change, advice: Advice) -> str:
    axes = advice.axes if isinstance(advice, model.FewMapped) else ()
    return f"few sizes of the mapped axis {few_names(axes)} ({change.seen} seen)"


def _settings(change: Change, advice: Advice) -> str:
    if isinstance(advice, model.OneConfig) and advice.defined_later:
        return f"import what defines {few_names(advice.paths)} first"
    return _one_setting(change)


def _argument(advice: Advice) -> str:
    by_type = isinstance(advice, model.ToArgument) and advice.by_type
    if isinstance(advice, model.ToArgument) and advice.texts:
        return f"pass what Python makes of {few_names(advice.paths)}"
    return f"pass {few_names(advice.paths)} as an {'array' if by_type else 'argument'}"


_SHOWN_BY_ADVICE = (
    *("eager-init", "eager-sizes", "config", "static", "meta"),
    *("tree", "shape", "sharding", "weak_type"),
)
_BY_ADVICE: tuple[tuple[type[Advice], Callable[[Change, Advice], str]], ...] = (
    (model.PassDecision, lambda change, advice: _static(change._replace(paths=advice.paths))),
    (model.CompareByValue, _compared),
    (model.ReuseObject, _reused),
    (model.ToArgument, lambda _, advice: _argument(advice)),
    (model.PassHeld, _held),
    (model.PrintOutside, lambda _, advice: f"print {few_names(advice.paths)} outside"),
    (model.LeaveOutValue, _left_out),
    (model.LeaveOutArray, lambda change, _: f"leave out {_what(change)}"),
    (model.OneType, lambda change, _: f"one type for {_what(change)}"),
    (model.FewValues, _few),
    (model.BranchInProgram, _deciding),
    (model.LoopInProgram, _deciding),
    (model.TripsInProgram, _trips),
    (model.FewMapped, _mapped),
    (model.OneMesh, _one_mesh),
    (model.LowerWithSharding, lambda change, _: f"lower with the sharding of {_what(change)}"),
    (model.PlaceFirst, _placed),
    (model.OneSharding, lambda change, _: f"one device or sharding for {_what(change)}"),
    (model.JitInit, lambda _, advice: _init(advice)),
    (model.InjectHyperparams, lambda _, advice: _inject(advice)),
    (model.ToArray, lambda _, advice: _to_array(advice)),
    (model.FewSizes, few_sizes_title),
    (model.CastResult, lambda change, _: f"give the result {_what(change)} a dtype"),
    (model.OneConfig, _settings),
)
"""Titles from advice that says more than the changed part of the key."""


def _one_setting(change: Change) -> str:
    return f"one setting of {_what(change)}"


_TITLES: dict[str, Callable[[Change], str]] = {
    "code": lambda change: f"run only the last version of {_who(change)}",
    "bodies": lambda change: f"define {_who(change)} once, outside",
    **dict.fromkeys(OF_CONTEXT, _one_setting),
    **dict.fromkeys(OF_OPTIONS, lambda change: f"{_one_setting(change)} for {_who(change)}"),
    **dict.fromkeys(OF_ARGUMENTS, _static),
    "meta": _static,
    "signature": lambda change: f"pass {_what(change)} one way",
    "tree": lambda change: f"one structure for {_what(change)}",
    "shape": lambda change: f"one size for {_what(change)}",
    "rank": lambda change: f"one number of axes for {_what(change)}",
    "dtype": lambda change: f"one dtype for {_what(change)}",
    "weak_type": lambda change: f"give {_what(change)} a dtype from the start",
    "sharding": lambda change: f"one sharding for {_what(change)}",
    "clear": lambda _: "do not clear the caches",
    "again": lambda change: f"keep fewer programs besides {_who(change)}",
    "state": lambda change: f"pass {_who(change)} what it reads from outside",
    "eager": lambda change: f"jit {_who(change) if change.functions else 'what this line calls'}",
    "eager-callback": lambda _: "NumPy in this host callback",
    "eager-import": lambda _: "NumPy while this module is imported",
    "eager-disabled": lambda _: "turn `jax_disable_jit` off",
    "eager-init": lambda _: "jit what creates the parameters",
    "eager-sizes": lambda change: sizes_on_lines(change, "few sizes in"),
}
