"""The walls of the house that import-linter does not see: see the contracts in pyproject.toml."""

import ast
import collections
import importlib
import inspect
import pathlib
import re

import pages
import pytest

from tests import house
from xlbench.settings import source

PROJECT = pathlib.Path(__file__).parent.parent
MODULES = house.modules(PROJECT)
PACKAGES = sorted(
    name
    for name, path in MODULES.items()
    if path.name == '__init__.py'
    and name.count('.')
    and house.package(name) not in house.ROOTS  # Tasks and configs are found by their names.
)


def test_the_arrows_are_seen():
    seen = {(arrow.source, arrow.target) for arrow in house.arrows(PROJECT)}
    assert ('xlbench.train', 'xlbench.training.loop') in seen
    assert ('xlbench.tasks.fewshot', 'xlbench.tasks.xtreme') in seen
    assert any(arrow.late for arrow in house.arrows(PROJECT))
    assert house.circles({('a', 'b'), ('b', 'c'), ('c', 'a'), ('c', 'd')}) == [['a', 'b', 'c']]


def test_nothing_imports_in_a_circle():
    """Neither modules when they are loaded, nor rooms, by late imports either."""
    arrows = house.arrows(PROJECT)
    assert house.circles({(a.source, a.target) for a in arrows if not a.late}) == []
    assert house.circles(house.rooms(arrows)) == []


def test_configs_are_found_by_name_and_tasks_by_file():
    """Only what looks for the files imports these packages, for their folders."""
    for package, allowed in (('configs', {'config'}), ('tasks', {'benchmarks', 'data'})):
        inside = [a for a in house.arrows(PROJECT) if house.package(a.target) == package]
        outer = [arrow for arrow in inside if house.package(arrow.source) != package]
        assert {house.package(arrow.source) for arrow in outer} <= allowed, (package, outer)
        assert not [arrow for arrow in outer if arrow.target.startswith(f'xlbench.{package}.')]


@pytest.mark.parametrize('name', PACKAGES)
def test_a_package_says_what_is_in_it(name):
    """Its docstring has a line for each module, or `__all__` the names that its users import."""
    path = MODULES[name].parent
    modules = {file.stem for file in path.glob('*.py') if not file.stem.startswith('_')}
    modules |= {folder.parent.name for folder in path.glob('*/__init__.py')}
    package = importlib.import_module(name)
    listed = set(getattr(package, '__all__', ()))
    lines = modules & {*re.findall(r'^  (\w+) ', package.__doc__, re.M)}
    assert lines in (set(), modules) or not listed <= modules
    for entry in listed - modules:
        assert hasattr(package, entry), entry
        thing = getattr(package, entry)
        named = inspect.isfunction(thing) or inspect.isclass(thing)
        assert not named or thing.__doc__, entry


def test_every_public_name_is_used():
    """What no other module, task, config or test mentions is nobody's."""
    data = (PROJECT / 'xlbench').rglob('*.toml')
    texts = [path.read_text() for path in (*MODULES.values(), *data)]
    texts += [path.read_text() for f in house.BESIDE for path in (PROJECT / f).rglob('*.py')]
    texts += [path.read_text() for path in pages.FILES.values()]
    mentioned = re.findall(r'\w+', '\n'.join(texts))
    counts = collections.Counter(mentioned)
    for package, ending in (
        ('training.objectives', ''),
        ('evaluators', 'Evaluator'),
        ('training.tracking', 'Tracker'),
    ):
        counts.update(source.catalog(f'xlbench.{package}', ending).values())  # By their files.
    unused = []
    for module, path in MODULES.items():
        for node in house.tree(path).body:
            is_public = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != '_'
            if is_public and counts[node.name] < 2:
                unused.append(f'{module}.{node.name}')
    assert not unused


def _listed(docstring: str) -> set[str] | None:
    """The names under 'Args:' of a docstring; None without such a section."""
    section = re.search(r'^( *)Args:\n((?:\1 +.*\n|\n)+)', f'{docstring}\n', re.M)
    if not section:
        return None
    lines = [line for line in section[2].splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    names = [line.split(':')[0] for line in lines if line[margin] != ' ']
    return {name for text in names for name in re.findall(r'\w+', text)}


def test_docstrings_are_of_their_things():
    """They begin with a verb or a noun of the field; a section Args has all arguments, or none."""
    vague = re.compile(r'(What|Whatever|Whether|Those|That which|So many|Of|As of)\b')
    wrong = []
    for module, path in MODULES.items():
        for node in ast.walk(house.tree(path)):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            docstring, name = ast.get_docstring(node) or '', getattr(node, 'name', '')
            if vague.match(docstring):
                wrong.append(f'{module}.{name}: {docstring[:20]}')
            if isinstance(node, ast.FunctionDef) and name[0] != '_':
                args = node.args
                every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
                arguments = {a.arg for a in filter(None, every)} - {'self', 'cls'}
                if (listed := _listed(docstring)) not in (None, arguments):
                    wrong.append(f'{module}.{name}: {listed ^ arguments}')
    assert not wrong


def test_sections_of_docstrings_have_one_form():
    """Their items stand two columns deeper."""
    form = re.compile(r'^( *)(Args|Attributes|Raises|Returns|Yields):\n(?!\1  \S)', re.M)
    assert not [module for module, path in MODULES.items() if form.search(path.read_text())]


def test_tests_lie_as_the_packages_do():
    packages = {name.split('.')[1] for name in PACKAGES} | {'tasks'}
    for folder in (PROJECT / 'tests').iterdir():
        if folder.is_dir() and any(folder.glob('*_test.py')):
            assert folder.name in packages | {'outside', 'fuzz', 'tools'}


def test_no_package_is_above_its_budget():
    """Budgets go down only: a package that shrank takes its budget with it."""
    found = house.sizes(PROJECT)
    assert found.keys() == house.BUDGETS.keys()
    above = {
        name: (is_now, house.BUDGETS[name])
        for name, is_now in found.items()
        if any(now > most for now, most in zip(is_now, house.BUDGETS[name], strict=True))
    }
    assert not above, 'take away before you add, or raise tests/house.py and say why'
    whole = house.figures(PROJECT)
    assert all(whole[name] <= most for name, most in house.MOST.items()), whole
