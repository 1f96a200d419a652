"""The figures of a plan, as --output writes them, and in words, as the program prints them."""

import re
from collections.abc import Iterator, Mapping
from typing import NotRequired, TypedDict

from xlbench.system.files import Block
from xlbench.system.progress import duration, quantity

GIB = 1 << 30
MOST = 5  # lines of a kind
Described = Mapping[str, int | float | str | None]  # A Device.


class Refusal(TypedDict):
    """The answer of libtpu to a program that is too large; bytes, None where it does not say."""

    needed: int | None
    limit: int | None
    message: str


class Array(TypedDict):
    """An array of a program: bytes on one device, type and what the model calls it."""

    bytes: int
    type: str
    op: str


class Exchange(TypedDict):
    """Collectives that are alike: how many run, bytes they work on, bytes that a device sends."""

    kind: str
    between_slices: bool
    count: int
    wire_bytes: float
    bytes: int
    type: NotRequired[str]
    devices: NotRequired[int]
    op: NotRequired[str]


class Roofline(TypedDict):
    """Seconds from the makers' peaks: of products, memory and links, and together."""

    least: dict[str, float]
    most: dict[str, float]
    least_seconds: float
    most_seconds: float


class Estimate(TypedDict, total=False):
    """Seconds of a run of a program, and the model's products over the peak of that time."""

    compiler_seconds: float | None
    compiler_source: str
    compiler_cycles: int
    with_links_seconds: list[float]
    roofline: Roofline
    mfu: dict[str, float]


class Program(TypedDict):
    """A compiled program; what is not required is missing where the compiler refused it."""

    name: str
    shapes: dict[str, list[int]]
    beside: int
    matmul_flops: int
    whole_activations: list[Array]
    compile_seconds: float
    memory: dict[str, int | None]
    estimate: Estimate
    fits: bool | None
    refused: NotRequired[Refusal]
    compiler_flops: NotRequired[float | None]
    bytes_accessed: NotRequired[float | None]
    unreadable: NotRequired[str]
    collectives: NotRequired[list[Exchange] | None]
    largest_collectives: NotRequired[list[Exchange]]
    unknown_loops: NotRequired[int]
    unknown_trips: NotRequired[int]
    largest: NotRequired[list[Array]]


class Plan(TypedDict):
    """All programs of a config on one mesh."""

    mesh: dict[str, int]
    mesh_in_words: str
    parameters: int
    trained_share: float
    device_bytes: dict[str, int]
    model_flops: int
    held_whole: list[str]
    programs: list[Program]
    fits: bool | None


class Trial(TypedDict):
    """A smaller setting that was tried; bytes, and whether its state alone was too large."""

    flags: str
    fits: bool | None
    needed: int | None
    state: NotRequired[bool]


class Hours(TypedDict):
    """The time of training if a step's products run at a share of the devices' peak."""

    mfu: float
    step_seconds: float
    stages: dict[str, float]


class Result(TypedDict):
    """Everything that --output holds."""

    format: int
    topology: str
    device: dict[str, int | float | str | None]
    config: Block
    vocabulary: dict[str, int | str]
    stage: str
    notes: list[str]
    versions: dict[str, str]
    plan: NotRequired[Plan | None]
    fits: NotRequired[bool | None]
    state_bytes: NotRequired[dict[str, int]]
    hours: NotRequired[Hours | None]
    tried: NotRequired[list[Trial]]
    suggestion: NotRequired[str | None]
    suggested_plan: NotRequired[Plan | None]
    all_tried: NotRequired[bool]


def amount(size: float | None) -> str:
    """Writes bytes in GiB or MiB. Example: 3 << 30 -> '3.00 GiB'."""
    if size is None:
        return 'not given'
    unit, name = (GIB, 'GiB') if size >= GIB else (1 << 20, 'MiB')
    return f'{size / unit:.3g} {name}' if size < 100 * unit else f'{size / unit:.0f} {name}'


def lines_of(result: Result) -> Iterator[str]:
    """Describes a plan, line by line."""
    device = result['device']
    yield (
        f'{device["count"]} {device["kind"]} device{"s" if device["count"] > 1 else ""} '
        f'({result["topology"]}), memory {amount(device["capacity"])} each ({device["source"]})'
    )
    yield f'vocabulary {result["vocabulary"]["size"]:,} ({result["vocabulary"]["source"]})'
    for note in result['notes']:
        yield f'note: {note}'
    if result['plan']:
        yield from _plan_lines(result['plan'], device)
    else:
        state = result['state_bytes']
        yield (
            f'per device: parameters {amount(state["parameters"])}, optimizer state '
            f'{amount(state["optimizer_state"])}'
        )
    if result.get('hours'):
        yield from _hours_lines(result['hours'], result['plan'])
    fits = {True: 'it fits', False: 'it does NOT fit', None: 'whether it fits is not known'}
    yield fits[result['fits']]
    for entry in result['tried']:
        why = ' for parameters and optimizer state alone' if entry.get('state') else ''
        verdict = 'fits' if entry['fits'] else 'does not fit'
        yield f'  tried {entry["flags"]}: {amount(entry["needed"])}{why}, {verdict}'
    if result['suggested_plan']:
        yield f'the first that fits: {result["suggestion"]}'
        for key, value in re.findall(r'--config\.(\S+)=(\S+)', result['suggestion']):
            block, _, name = key.rpartition('.')
            if block and name not in result['config'][block]:
                # Else the command line would not know the key.
                value = value if value.isdigit() else repr(value)
                yield f'  {key} is not in the config file: add {name}={value} to its {block} there'
        yield from _plan_lines(result['suggested_plan'], device)
    elif result['tried']:
        more = '' if result['all_tried'] else '; there are more, set --tries higher'
        yield f'no setting that was tried fits{more}'


def _plan_lines(plan: Plan, device: Described) -> Iterator[str]:
    state = plan['device_bytes']
    yield f'mesh {plan["mesh_in_words"]}; {quantity(plan["parameters"])} parameters'
    yield (
        f'per device: parameters {amount(state["parameters"])}, optimizer state '
        f'{amount(state["optimizer_state"])}, batch {amount(state["batch"])}'
    )
    for program in plan['programs']:
        yield from _program_lines(program, plan, device)
    lines = plan['held_whole']
    for line in lines[:MOST]:
        yield f'held whole by every device: {line}'
    if len(lines) > MOST:
        yield f'  and {len(lines) - MOST} smaller ones'


def _hours_lines(hours: Hours, plan: Plan) -> Iterator[str]:
    compiled = '' if plan['programs'] else 'nothing was compiled: '
    yield (
        f"the model's own products of a step (three forward passes) "
        f'{quantity(plan["model_flops"], "FLOP")}; {compiled}at an MFU of '
        f'{hours["mfu"]:.0%}, which is assumed, a step takes {1e3 * hours["step_seconds"]:.3g} ms'
    )
    for name, number in hours['stages'].items():
        yield f'{name}: {duration(3600 * number)}; evaluations come on top'


def _program_lines(program: Program, plan: Plan, device: Described) -> Iterator[str]:
    memory = program['memory']
    yield f'{program["name"]} (compiled in {duration(program["compile_seconds"])})'
    beside = program['beside']
    kept = f', beside it optimizer state {amount(beside)}' if beside else ''
    limit = f' of {amount(device["capacity"])}' if device['capacity'] else ''
    if 'refused' in program:
        usable = program['refused']['limit']
        limit = f' of the {amount(usable)} that it may use' if usable else limit
        yield f'  the compiler refuses it: at least {amount(memory["needed"])}{limit}{kept}'
        return
    yield (
        f'  memory: arguments {amount(memory["argument"])}, output {amount(memory["output"])} '
        f'(of it in place {amount(memory["alias"])}), activations and temporaries '
        f'{amount(memory["temp"])}, code {amount(memory["generated_code"])}{kept}'
        f'{_process(memory["process"], device["count"])}; '
        f'together {amount(memory["needed"])}{limit}'
    )
    for entry in program['largest'][:3]:
        yield f'  large array: {entry["type"]} {amount(entry["bytes"])} {entry["op"]}'
    for entry in program['whole_activations']:
        yield f'  whole on every device: {entry["op"]} {entry["type"]} {amount(entry["bytes"])}'
    count = device['count']
    yield (
        f'  products of the program {quantity(program["matmul_flops"], "FLOP")} on all '
        f'devices, {quantity(program["matmul_flops"] / count, "FLOP")} each; the compiler '
        f'counts {quantity(program["compiler_flops"] or 0, "FLOP")} each, loops once'
    )
    if program['name'] == 'the train step':
        yield (
            f"  the model's own products (three forward passes) "
            f'{quantity(plan["model_flops"], "FLOP")} on all devices'
        )
    if program['collectives'] is None:
        yield f'  collectives: not given, jaxlib cannot read the program: {program["unreadable"]}'
    for row in program['collectives'] or ():
        between = ' between slices' if row['between_slices'] else ''
        ring = '' if between or row['kind'] == 'collective-permute' else ' in a ring'
        yield (
            f'  {row["count"]} {row["kind"]}{between}, {quantity(row["bytes"], "B")}; '
            f'a device sends {quantity(row["wire_bytes"], "B")}{ring}'
        )
    if program['collectives'] == []:
        yield '  no collectives'
    for row in program['largest_collectives']:
        sent = f'{quantity(row["wire_bytes"], "B")} sent'
        over = 'slices' if row['between_slices'] else 'devices'
        yield (
            f'  largest: {row["count"]} {row["kind"]} of {_cut(row["type"])} over {row["devices"]} '
            f'{over}, {sent} {_cut(row["op"], end=True)}'.rstrip()
        )
    if program['unknown_loops']:
        yield (
            f'  {program["unknown_loops"]} loop(s) end by what they compute; counted as '
            f'{program["unknown_trips"]} round(s) each'
        )
    yield from _estimate_lines(program['estimate'])


def _process(size: int | None, devices: int) -> str:
    """Describes the process, of which a device has this many bytes; '' where it has none."""
    if size == 0:
        return ''
    what = f'share of {devices} in the process' if devices > 1 else 'process'
    return f', {what} (Python, jax, compiled programs) {amount(size)}'


def _cut(text: str, most: int = 70, *, end: bool = False) -> str:
    """Keeps the first or the last `most` characters."""
    if len(text) <= most:
        return text
    return f'...{text[-most:]}' if end else f'{text[:most]}...'


def _estimate_lines(estimated: Estimate) -> Iterator[str]:
    mfu = estimated.get('mfu', {})

    def share(key: str) -> str:
        return f' (MFU {100 * mfu[key]:.1f}%)' if key in mfu else ''

    seconds = estimated['compiler_seconds']
    if seconds:
        yield (
            f"  the compiler's estimate: {1e3 * seconds:.4g} ms{share('compiler')}, "
            f'{estimated["compiler_source"]}'
        )
    else:
        yield f"  the compiler's estimate: {estimated['compiler_source']}"
    if 'with_links_seconds' in estimated:
        least, most = estimated['with_links_seconds']
        yield (
            f'  and our time of the links, all beside it: {1e3 * least:.4g} ms'
            f'{share("with_links_least")}, all after it: {1e3 * most:.4g} ms'
            f'{share("with_links_most")}'
        )
    if roofline := estimated.get('roofline'):
        least, most = (
            {key: f'{1e3 * seconds:.4g}' for key, seconds in roofline[name].items()}
            for name in ('least', 'most')
        )
        yield (
            f"  our roofline from the makers' peaks: products {least['products']} ms, memory "
            f'{least["memory"]} to {most["memory"]} ms, links {least["links"]} ms; all at once '
            f'{1e3 * roofline["least_seconds"]:.4g} ms{share("roofline_least")}, one after another '
            f'{1e3 * roofline["most_seconds"]:.4g} ms{share("roofline_most")}'
        )
