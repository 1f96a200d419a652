"""The documentation holds together: its links lead somewhere, what it names and quotes is there."""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys

import pages
import pytest
import warm

from xlbench import config as config_lib
from xlbench.__main__ import PROGRAMS
from xlbench.config import pretrained
from xlbench.models import FAMILIES
from xlbench.settings import source
from xlbench.settings.optimizer import OPTIMIZERS

_LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')  # Those to pictures, too.


@pytest.mark.parametrize('page', pages.FILES | pages.NOTEBOOKS)
def test_links_inside_the_project_lead_somewhere(page):
    """Files are there, and headings are on their pages; addresses of the web are left alone."""
    file = (pages.FILES | pages.NOTEBOOKS)[page]
    for link in _LINK.findall(pages.prose(page)):
        path, _, anchor = link.partition('#')
        if '://' in path:
            continue
        target = (file.parent / path).resolve() if path else file
        assert target.is_relative_to(pages.PROJECT) and target.exists(), link
        assert not anchor or anchor in pages.anchors(target.name), link


def test_readme_and_index_lead_to_every_page():
    linked = set(re.findall(r'\]\(docs/([\w.]+)\)', pages.FILES['README.md'].read_text('utf-8')))
    assert linked == set(pages.FILES) - {'README.md', 'index.md'}
    listed = [f'{name}.md' for block in pages.blocks('{toctree}') for name in block.text.split()]
    assert sorted(name for name in listed if name in pages.FILES) == sorted(linked)
    linked = set(re.findall(r'\]\((notebooks/\w+\.md)\)', pages.FILES['notebooks.md'].read_text()))
    assert linked == set(pages.NOTEBOOKS) == linked & set(listed)


def _refuse(arguments: list[str]) -> None:
    """Raises UserError for the arguments of a training that do not fit each other."""
    arguments = [x for x in arguments if not x.startswith('--report=')]  # Of sweeps alone.
    config, *_ = config_lib.parse_command(['train', *arguments])
    config = config.source if config_lib.is_sweep(config) else config
    if 'from' not in config.model:  # What a folder brings is not here.
        config_lib.check_names(config)


def test_the_configs_and_flags_of_trainings_exist(monkeypatch):
    """Those of all commands, also of those that readme_test.py does not run, and of sentences."""
    monkeypatch.chdir(pages.PROJECT)
    monkeypatch.setattr(pretrained, 'resolve', lambda *given: None)
    for block in pages.blocks('sh'):
        for command in block.commands:
            words = shlex.split(command)
            is_run = words[2:3] in (['xlbench.train'], ['xlbench.fewshot'])
            if is_run and words[3].startswith('--'):  # Not `fewshot report`.
                _refuse(words[3:])
    for path in pages.FILES.values():
        for config in re.findall(r'`(?:--config=)?(configs/\w+\.py:[^`\s]+)`', path.read_text()):
            _refuse([f'--config={config}'])


def test_what_python_on_the_pages_imports_is_there():
    """Of xlbench; programs that readme_test.py does not run as well."""
    found = 0
    for block in pages.blocks('python'):
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and node.module.partition('.')[0] == 'xlbench':
                for name in (alias.name for alias in node.names):
                    there = hasattr(importlib.import_module(node.module), name)
                    there = there or importlib.util.find_spec(f'{node.module}.{name}')
                    assert there, (block.page, node.module, name)
                    found += 1
    assert found > 10


def test_config_has_every_block():
    """What a config can choose from has a table on the page of keys, made from its docstrings."""
    page = pages.FILES['config.md'].read_text('utf-8')
    tables = set(re.findall(r'^<!-- from the code: block (\S+)', page, re.MULTILINE))
    modules = {re.search(r'models\.(\w+):|$', path)[1] for path in tables}
    assert {family.module for family in FAMILIES.values()} <= modules
    for name, kind in OPTIMIZERS.items():
        assert f'xlbench.settings.optimizer:{kind.__name__}' in tables and f'`{name}`' in page
    for package, ending in (('training.objectives', ''), ('evaluators', 'Evaluator')):
        for name in source.catalog(f'xlbench.{package}', ending):
            assert re.search(rf'^###.*\b{name}\b', page, re.MULTILINE), name
    for path in tables:
        assert source.fields(*path.split(':')), path


def test_the_parts_that_come_from_the_code_are_as_it_gives_them():
    """Programs with all options, configs, config keys and names; `make docs` writes them anew."""
    pytest.importorskip('sphinx')
    program = str(pages.PROJECT / 'docs' / '_extensions' / 'reference.py')
    check = [warm.python(), program, '--check']
    run = subprocess.run(check, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    page = pages.FILES['programs.md'].read_text('utf-8')
    assert re.findall(r'^### (\S+)$', page, re.MULTILINE) == list(PROGRAMS)
    assert '| `--num_beams=NUM_BEAMS` |' in page and '| `--dry_run` |' in page


def test_the_messages_that_are_explained_are_those_of_the_program():
    """Each is a part of a text in the source, whose values are `...`."""
    texts = set()
    for path in (pages.PROJECT / 'xlbench').rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else '...' for p in node.values)
                texts.add(''.join(parts).replace('......', '...'))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    messages = [b.text.strip() for b in pages.blocks('text') if b.page == 'troubleshooting.md']
    assert len(messages) > 20
    for message in messages:
        assert any(message in text for text in texts), message


# ---------------------------------------- the site in a real Chromium

# Elements that leave the page to the right, and stand in nothing that scrolls.
OVERFLOWING = """
() => [...document.querySelectorAll('.bd-article *')].filter(one => {
  if (one.getBoundingClientRect().right <= document.documentElement.clientWidth + 1) return false;
  for (let box = one; box; box = box.parentElement) {
    const style = getComputedStyle(box);
    if (/auto|scroll/.test(style.overflowX) && box.clientWidth) return false;
    if (style.position === 'absolute' || style.visibility === 'hidden') return false;
  }
  return true;
}).map(one => `${one.tagName} ${one.textContent.slice(0, 60)}`).slice(0, 3)
"""


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """The built site, without what its notebooks print."""
    pytest.importorskip('sphinx')
    folder = tmp_path_factory.mktemp('site')
    options = ['-b', 'html', '-n', '-W', '-D', 'nb_execution_mode=off']
    command = [sys.executable, '-m', 'sphinx', *options, str(pages.PROJECT / 'docs'), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize('width', [390, 1280])
def test_no_page_is_wider_than_the_screen(site, browser, width):
    page = browser.new_page(viewport={'width': width, 'height': 844})
    for path in sorted(site.rglob('*.html')):
        page.goto(path.as_uri())
        wide = page.evaluate('document.documentElement.scrollWidth')
        assert wide <= width, (path.relative_to(site), wide)
        assert page.evaluate(OVERFLOWING) == [], path.relative_to(site)


@pytest.mark.nightly
def test_the_first_page_has_a_command_its_table_and_a_picture(site, browser):
    page = browser.new_page()
    page.goto((site / 'index.html').as_uri())
    assert 'xlbench.train --config=' in page.inner_text('.highlight-sh')
    assert 'best_constant' in page.inner_text('.bd-article table')
    assert page.evaluate("document.querySelector('.bd-article img').naturalWidth") > 100
