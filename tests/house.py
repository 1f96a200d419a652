"""Figures of the house: packages, import arrows, circles, sizes; `python tests/house.py`."""

import ast
import collections
import dataclasses
import pathlib
import statistics
import sys

ROOTS = ('xlbench', 'tasks', 'configs')


@dataclasses.dataclass(frozen=True)
class Arrow:
    """An import of one module by another.

    Attributes:
      source: the module that imports.
      target: what it imports.
      late: whether that is inside a function.
    """

    source: str
    target: str
    late: bool


def modules(root: pathlib.Path) -> dict[str, pathlib.Path]:
    """{name: file} of the package; tasks and configs are xlbench.tasks and xlbench.configs."""
    found = {}
    for folder in ROOTS:
        for path in sorted((root / folder).rglob('*.py')):
            parts = path.relative_to(root).with_suffix('').parts
            parts = parts[:-1] if parts[-1] == '__init__' else parts
            found['.'.join(parts if folder == 'xlbench' else ('xlbench', *parts))] = path
    return found


def arrows(root: pathlib.Path) -> set[Arrow]:
    """All imports among the modules, those inside functions too."""
    known = modules(root)
    found = set()
    for name, path in known.items():
        tree = ast.parse(path.read_bytes())
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        late = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                targets = [f'{node.module}.{alias.name}' for alias in node.names]
                targets = [t if t in known else node.module for t in targets]
            else:
                continue
            found |= {Arrow(name, t, id(node) in late) for t in targets if t in known and t != name}
    return found


def package(name: str) -> str:
    """The room a module is in: 'data' of xlbench.data.batches, 'train' of xlbench.train."""
    parts = name.split('.')
    return parts[1] if len(parts) > 1 else name


def rooms(found: set[Arrow]) -> set[tuple[str, str]]:
    """Arrows between rooms. Not those of programs, nor to the folders of tasks and configs."""
    return {
        (package(arrow.source), package(arrow.target))
        for arrow in found
        if package(arrow.source) != package(arrow.target)
        and package(arrow.target) not in ROOTS
        and not arrow.source.endswith('.__main__')
    }


def circles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan's strongly connected components)."""
    after = collections.defaultdict(list)
    for a, b in sorted(edges):
        after[a].append(b)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in after[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted({*after, *(b for _, b in edges)}):
        if node not in index:
            visit(node)
    return found


def main(root: pathlib.Path) -> None:
    """Prints the figures."""
    known, found = modules(root), arrows(root)
    among = rooms(found)
    early = {(a.source, a.target) for a in found if not a.late}
    lines = {name: len(path.read_text().splitlines()) for name, path in known.items()}
    functions, ifs, anys = [], 0, 0
    for name, path in known.items():
        tree = ast.parse(path.read_bytes())
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        functions += [(n.end_lineno - n.lineno + 1, f'{name}.{n.name}') for n in nodes]
        anys += sum(isinstance(n, ast.Name) and n.id == 'Any' for n in ast.walk(tree))
        if name == 'xlbench.train':
            ifs = sum(isinstance(n, ast.If) for n in ast.walk(tree))
    sizes, lengths = sorted(lines.values()), sorted(n for n, _ in functions)
    source = sum(n for name, n in lines.items() if not name.startswith('xlbench.configs'))
    configs = sum(lines.values()) - source
    tests = sum(len(p.read_text().splitlines()) for p in (root / 'tests').rglob('*.py'))
    p90 = [values[int(0.9 * len(values))] for values in (sizes, lengths)]
    print(
        f'modules side by side in xlbench/: {len(list((root / "xlbench").glob("*.py")))}; '
        f'packages: {len({package(n) for n in known if n.count(".") > 1})}\n'
        f'arrows between modules: {len(found)}; between rooms: {len(among)}\n'
        f'circles of modules at load: {circles(early)}\n'
        f'circles of rooms, late imports too: {circles(among)}\n'
        f'lines of a file: median {statistics.median(sizes):.0f}, p90 {p90[0]}, '
        f'most {max(lines.items(), key=lambda x: x[1])}, over 500: {sum(n > 500 for n in sizes)}\n'
        f'lines of a function: median {statistics.median(lengths):.0f}, p90 {p90[1]}, '
        f'most {max(functions)}, over 80: {sum(n > 80 for n in lengths)}\n'
        f'ifs in train.py: {ifs}; Any per thousand lines: {1000 * anys / sum(sizes):.1f}\n'
        f'lines: source {source}, configs {configs}, tests {tests}'
    )


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve())
