"""The figures of a plan, as --output writes them, and in words, as the program prints them.

Bytes are of one device, and None where nobody knows them.

  result    the device and the config; `plan`, or None where the state alone does not fit; `tried`,
            smaller settings with the bytes that they need, and `suggested_plan`, of the first that
            fits; on GPUs `hours` of each stage at an assumed MFU
  plan      `parameters`, `device_bytes` of the state and the batch, `held_whole`, and `programs`
  program   `memory` by the compiler; `matmul_flops` on all devices; `collectives`, alike ones
            together: how many run, the bytes they work on, those that a device sends; `refused` in
            place of these where the compiler has no room for it
  estimate  of a program: seconds by the compiler, with the links, and from the makers' peaks
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from xlbench.system.progress import duration, quantity

GIB = 1 << 30
MOST = 5  # lines of a kind
Described = Mapping[str, Any]  # A Device.
Figures = dict[str, Any]  # One of those above.


def amount(size: float | None) -> str:
    """Writes bytes in GiB or MiB. Example: 3 << 30 -> '3.00 GiB'."""
    if size is None:
        return 'not given'
    unit, name = (GIB, 'GiB') if size >= GIB else (1 << 20, 'MiB')
    return f'{size / unit:.3g} {name}' if size < 100 * unit else f'{size / unit:.0f} {name}'


def lines_of(result: Figures) -> Iterator[str]:
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
    if hours := result.get('hours'):
        compiled = '' if result['plan']['programs'] else 'nothing was compiled: '
        yield (
            f"the model's own products of a step (three forward passes) "
            f'{quantity(result["plan"]["model_flops"], "FLOP")}; {compiled}at an MFU of '
            f'{hours["mfu"]:.0%}, which is assumed, a step takes '
            f'{1e3 * hours["step_seconds"]:.3g} ms'
        )
        for name, number in hours['stages'].items():
            yield f'{name}: {duration(3600 * number)}; evaluations come on top'
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


def _plan_lines(plan: Figures, device: Described) -> Iterator[str]:
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


def _program_lines(program: Figures, plan: Figures, device: Described) -> Iterator[str]:
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
    count, process = device['count'], ''
    if memory['process'] != 0:
        what = f'share of {count} in the process' if count > 1 else 'process'
        process = f', {what} (Python, jax, compiled programs) {amount(memory["process"])}'
    yield (
        f'  memory: arguments {amount(memory["argument"])}, output {amount(memory["output"])} '
        f'(of it in place {amount(memory["alias"])}), activations and temporaries '
        f'{amount(memory["temp"])}, code {amount(memory["generated_code"])}{kept}'
        f'{process}; together {amount(memory["needed"])}{limit}'
    )
    yield (
        f'  products of the program {quantity(program["matmul_flops"], "FLOP")} on all '
        f'devices, {quantity(program["matmul_flops"] / count, "FLOP")} each; the compiler '
        f'counts {quantity(program["compiler_flops"] or 0, "FLOP")} each, loops once'
    )
    at_peak = 0.0  # Seconds of a train step's products.
    if program['name'] == 'the train step':
        at_peak = plan['model_flops'] / (device['peak'] * count) if device['peak'] else 0.0
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
    yield from _estimate_lines(program['estimate'], at_peak)


def _cut(text: str, most: int = 70, *, end: bool = False) -> str:
    """Keeps the first or the last `most` characters."""
    if len(text) <= most:
        return text
    return f'...{text[-most:]}' if end else f'{text[:most]}...'


def _estimate_lines(estimated: Figures, at_peak: float) -> Iterator[str]:
    def mfu(seconds: float) -> str:
        return f' (MFU {100 * at_peak / seconds:.1f}%)' if at_peak and seconds else ''

    seconds = estimated['compiler_seconds']
    if seconds:
        yield (
            f"  the compiler's estimate: {1e3 * seconds:.4g} ms{mfu(seconds)}, "
            f'{estimated["compiler_source"]}'
        )
    else:
        yield f"  the compiler's estimate: {estimated['compiler_source']}"
    if 'with_links_seconds' in estimated:
        least, most = estimated['with_links_seconds']
        yield (
            f'  and our time of the links, all beside it: {1e3 * least:.4g} ms'
            f'{mfu(least)}, all after it: {1e3 * most:.4g} ms{mfu(most)}'
        )
    if peaks := estimated.get('at_peaks'):
        parts = ', '.join(f'{key} {1e3 * seconds:.4g} ms' for key, seconds in peaks.items())
        least = max(peaks.values())
        yield (
            f"  a bound by the makers' peaks: {parts}; all at once {1e3 * least:.4g} ms{mfu(least)}"
        )
