"""Figures of the house: packages, import arrows, circles, sizes; `python tests/house.py`."""

import ast
import collections
import dataclasses
import functools
import pathlib
import statistics
import sys

ROOTS = ('xlbench', 'tasks', 'configs')
BESIDE = ('tests', 'tools')  # Folders of Python that are no part of the package.
# Lines and files that a package may have; `programs` are the modules side by side in xlbench/. The
# numbers go down. Whoever has to raise one says why in the commit.
BUDGETS: dict[str, tuple[int, int]] = {
    'benchmarks': (2381, 16),
    'config': (1109, 6),
    'configs': (1868, 20),
    'data': (9349, 41),
    'decoding': (965, 8),
    'dialogues': (459, 4),
    'evaluators': (1399, 6),
    'fewshot': (4846, 20),
    'huggingface': (3123, 14),
    'inference': (2849, 11),
    'interactive': (463, 4),
    'judgement': (1314, 7),
    'metrics': (4397, 24),
    'models': (5209, 25),
    'parallel': (934, 6),
    'pipeline': (2965, 12),
    'plan': (1538, 7),
    'prepare': (1671, 9),
    'programs': (2085, 12),
    'prompt': (690, 5),
    'reporting': (5640, 28),
    'reproduce': (2437, 10),
    'retrieval': (632, 4),
    'settings': (1620, 8),
    'system': (2479, 13),
    'tasks': (5474, 40),
    'tests': (54026, 245),
    'tools': (6479, 39),
    'training': (4649, 30),
    'translate': (1840, 9),
    'zoo': (361, 2),
}
# Likewise of the whole: rooms, arrows between them, the longest way down, and public names that
# several classes have.
MOST = {'rooms': 40, 'arrows': 233, 'floors': 12, 'class names used twice': 52}


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


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    """A file of Python, parsed."""
    return ast.parse(path.read_bytes())


def modules(root: pathlib.Path) -> dict[str, pathlib.Path]:
    """{name: file} of the package; tasks and configs are xlbench.tasks and xlbench.configs."""
    found = {}
    for folder in ROOTS:
        for path in sorted((root / folder).rglob('*.py')):
            parts = path.relative_to(root).with_suffix('').parts
            parts = parts[:-1] if parts[-1] == '__init__' else parts
            found['.'.join(parts if folder == 'xlbench' else ('xlbench', *parts))] = path
    return found


@functools.cache
def arrows(root: pathlib.Path) -> set[Arrow]:
    """All imports among the modules, those inside functions too."""
    known = modules(root)
    found = set()
    for name, path in known.items():
        nodes = list(ast.walk(tree(path)))
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.Lambda)]
        late = {id(node) for function in functions for node in ast.walk(function)}
        for node in nodes:
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


def floors(edges: set[tuple[str, str]]) -> int:
    """The nodes on the longest way along the edges, which have no circle."""
    after = collections.defaultdict(set)
    for a, b in edges:
        after[a].add(b)

    @functools.cache
    def down(node: str) -> int:
        return 1 + max(map(down, after.get(node, ())), default=0)

    return max(map(down, after))


def sizes(root: pathlib.Path) -> dict[str, tuple[int, int]]:
    """{package: (lines of Python, files)}, of the tests, too."""
    found = collections.defaultdict(lambda: (0, 0))
    paths = [(name, path) for name, path in modules(root).items()]
    paths += [(folder, path) for folder in BESIDE for path in (root / folder).rglob('*.py')]
    for name, path in paths:
        lone = name.count('.') < 2 and name not in BESIDE and path.name != '__init__.py'
        place = 'programs' if lone or name == 'xlbench' else package(name)
        lines, files = found[place]
        found[place] = lines + len(path.read_text().splitlines()), files + 1
    return dict(sorted(found.items()))


def figures(root: pathlib.Path) -> dict[str, int]:
    """Counts rooms, arrows between them, floors, and public names that several classes have."""
    known = modules(root)
    nodes = (node for path in known.values() for node in tree(path).body)
    named = (n.name for n in nodes if isinstance(n, ast.ClassDef))
    classes = collections.Counter(name for name in named if name[0] != '_')
    return {
        'rooms': len({package(name) for name in known}),
        'arrows': len(rooms(arrows(root))),
        'floors': floors(rooms(arrows(root))),
        'class names used twice': sum(count > 1 for count in classes.values()),
    }


def main(root: pathlib.Path) -> None:
    """Prints the figures."""
    for name, (lines, files) in sizes(root).items():
        print(f'{name:<14} {lines:>6} lines, {files:>4} files')
    print(', '.join(f'{name} {count}' for name, count in figures(root).items()))
    known, found = modules(root), arrows(root)
    among = rooms(found)
    early = {(a.source, a.target) for a in found if not a.late}
    lines = {name: len(path.read_text().splitlines()) for name, path in known.items()}
    functions, ifs, anys = [], 0, 0
    for name, path in known.items():
        every = list(ast.walk(tree(path)))
        nodes = [n for n in every if isinstance(n, ast.FunctionDef)]
        functions += [(n.end_lineno - n.lineno + 1, f'{name}.{n.name}') for n in nodes]
        anys += sum(isinstance(n, ast.Name) and n.id == 'Any' for n in every)
        if name == 'xlbench.train':
            ifs = sum(isinstance(n, ast.If) for n in every)
    by_file, lengths = sorted(lines.values()), sorted(n for n, _ in functions)
    source = sum(n for name, n in lines.items() if not name.startswith('xlbench.configs'))
    configs = sum(lines.values()) - source
    tests = sum(len(p.read_text().splitlines()) for p in (root / 'tests').rglob('*.py'))
    p90 = [values[int(0.9 * len(values))] for values in (by_file, lengths)]
    print(
        f'modules side by side in xlbench/: {len(list((root / "xlbench").glob("*.py")))}; '
        f'packages: {len({package(n) for n in known if n.count(".") > 1})}\n'
        f'arrows between modules: {len(found)}; between rooms: {len(among)}\n'
        f'circles of modules at load: {circles(early)}\n'
        f'circles of rooms, late imports too: {circles(among)}\n'
        f'lines of a file: median {statistics.median(by_file):.0f}, p90 {p90[0]}, '
        f'most {max(lines.items(), key=lambda x: x[1])}, '
        f'over 500: {sum(n > 500 for n in by_file)}\n'
        f'lines of a function: median {statistics.median(lengths):.0f}, p90 {p90[1]}, '
        f'most {max(functions)}, over 80: {sum(n > 80 for n in lengths)}\n'
        f'ifs in train.py: {ifs}; Any per thousand lines: {1000 * anys / sum(by_file):.1f}\n'
        f'lines: source {source}, configs {configs}, tests {tests}'
    )


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve())
