"""The report of six runs in a real Chromium: on a phone and a desk, light and dark, with texts that
would like to run, and with 10,000 examples.
"""

import importlib.resources
import pathlib
import shutil

import chromium
import pytest
from report_sections import sections_of
from workdir_files import QG, change, write_predictions, write_workdir

from xlbench.benchmarks import MRS, MTG
from xlbench.reporting import comparisons, documents

PHONE, DESK = {'width': 390, 'height': 844}, {'width': 1440, 'height': 900}
ATTACK = '</script><script>window.hurt = 1</script><img src=x onerror="window.hurt = 1">'
HEBREW, FAMILY, LONG = 'החתול שכב על השטיח', 'Wo ist 👩🏽‍🚀 heute?', f'start {"wort " * 1000}'
EXAMPLES = 10_000
# What axe may find: nothing that keeps anybody from reading or using the page.
SERIOUS = ('serious', 'critical')


def write_runs(folder: pathlib.Path) -> list[pathlib.Path]:
    """Two systems with three seeds each; of every example the second one has another text."""
    config = {'stages': {'stage1': {'num_steps': 5}, 'stage2': {'num_steps': 5}}}
    paths = []
    for system, value in (('mt5', 40.0), (f'<b>{ATTACK[:40].replace("/", "-")}', 35.0)):
        for seed in range(3):
            info = {'config': config | {'seed': seed, 'name': system}, 'seed': seed}
            paths.append(
                write_workdir(
                    folder / f'{system}_{seed}', lambda step, task, v=value + seed: v + step,
                    steps=(5, 10), seed=seed, info=info,
                )
            )  # fmt: skip
    for name in ('copy_input', 'most_frequent'):  # Cells without a number.
        for path in paths:
            shutil.rmtree(path / 'eval' / 'baselines' / name / 'test' / QG.evaluate[0])
    for path in paths[::3]:
        write_answers(path, is_first=path is paths[0])
    return paths


def write_answers(path: pathlib.Path, is_first: bool) -> None:
    special = [ATTACK, HEBREW, FAMILY, LONG]
    for task in QG.evaluate:
        lines = []
        for i in range(EXAMPLES // len(QG.evaluate)):
            text = special[i] if i < len(special) else f'Frage {i} nach dem Haus'
            score = 50.0 if is_first else float(i % 101)
            prediction = text if is_first else f'Antwort {i} auf das Haus'
            lines.append({'id': i, 'input': f'{text} ', 'target': f'Frage {i} nach dem Hof',
                          'prediction': prediction, 'scores': {'rouge_l': score}})  # fmt: skip
        write_predictions(path, task, lines)


@pytest.fixture(scope='module')
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp('report')
    path = folder / 'report.html'
    path.write_text(documents.html(sections_of(*write_runs(folder))), encoding='utf-8')
    return path


@pytest.fixture
def open_report(open_page, report):
    """A function that opens the report in a window."""
    return lambda viewport=DESK, scheme='light': open_page(report, viewport, color_scheme=scheme)


def spilling(page) -> list[str]:
    """What reaches beyond the window, but for what scrolls by itself."""
    return page.evaluate("""() => [...document.querySelectorAll('body *')]
        .filter((e) => !e.closest('.scroll, .list, pre, .wide, .unseen, .skip'))
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)""")


def choose(page, name: str, value: str) -> None:
    page.locator(f'.filters [name={name}]').select_option(value)


def count(page) -> str:
    return page.inner_text('.tally').partition(' of')[0]


@pytest.mark.parametrize(
    ('viewport', 'scheme'),
    [
        (PHONE, 'light'), (DESK, 'dark'),
        pytest.param(PHONE, 'dark', marks=pytest.mark.nightly),
        pytest.param(DESK, 'light', marks=pytest.mark.nightly),
    ],
    ids=['phone-light', 'desk-dark', 'phone-dark', 'desk-light'],
)  # fmt: skip
def test_the_page_fits_and_everybody_can_read_it(open_report, viewport, scheme, tmp_path):
    axe = pytest.importorskip('axe_playwright_python', reason='needs axe-playwright-python')
    page = open_report(viewport, scheme)
    for folded in page.locator('summary').all():
        if folded.is_visible():
            folded.click()
    assert chromium.fits(page) and spilling(page) == []
    script = importlib.resources.files(axe).joinpath('axe.min.js').read_text(encoding='utf-8')
    page.evaluate(script)
    rules = {'resultTypes': ['violations']}
    violations = page.evaluate('(options) => axe.run(document, options)', rules)['violations']
    told = [
        f'{v["id"]}: {v["nodes"][0]["html"][:300]}' for v in violations if v['impact'] in SERIOUS
    ]
    assert told == []
    # The page is as light or dark as the reader's system, and its plots are whole pictures.
    ink, paper = page.evaluate("""() => ['color', 'backgroundColor'].map(
        (key) => Number(/\\d+/.exec(getComputedStyle(document.body)[key])[0]))""")
    assert (ink > paper) == (scheme == 'dark')
    widths = page.eval_on_selector_all('.plot', '(all) => all.map((e) => e.naturalWidth)')
    assert len(widths) == 3 and all(widths)
    page.screenshot(path=tmp_path / 'page.png', full_page=True)


def test_tables_are_sorted_and_compared(open_report):
    page = open_report()
    table = page.locator('table.compared').first
    names = table.locator('tr[data-name] th')
    header = table.locator('th[aria-sort]').last
    header.locator('button').click()
    assert header.get_attribute('aria-sort') == 'descending'
    assert names.first.inner_text().startswith('mt5')
    header.locator('button').click()
    assert header.get_attribute('aria-sort') == 'ascending'
    assert names.first.inner_text() == 'nearest_input'
    assert names.last.inner_text() == 'most_frequent'  # Without a number, so last in any order.
    # Seeds 40 to 42 at step 10: their mean is 51.0, 21.0 above the nearest input.
    first = table.locator('tr[data-name^=mt5] td').first
    assert first.inner_text().split('\n') == ['51.0 ±1.0', '+21.0']
    page.locator('[data-reference]').first.select_option('mt5 (3 seeds)')
    other = table.locator('tr[data-name=nearest_input] td').first
    assert other.inner_text().split('\n') == ['30.0', '−21.0']


@pytest.mark.parametrize('viewport', [PHONE, DESK], ids=['phone', 'desk'])
def test_examples_are_filtered_sorted_and_opened(open_report, viewport, tmp_path):
    page = open_report(viewport)
    assert count(page) == '10,000'
    choose(page, 'task', QG.evaluate[1])
    assert count(page) == '2,500'
    choose(page, 'order', 'disagreement')
    page.locator('.row').first.click()
    assert page.locator('.open h4').inner_text() == f'{QG.evaluate[1]}, example 0'
    choose(page, 'system', '1')
    page.fill('[name=low]', '99.5')
    page.fill('[name=high]', '100')
    assert count(page) == str(len(range(100, 2500, 101)))
    page.fill('[name=text]', 'ANTWORT 201 ')
    assert count(page) == '1'
    texts = page.locator('.open .texts .text').all_inner_texts()
    assert texts == [
        'Frage 201 nach dem Hof', 'Frage 201 nach dem Haus', 'Antwort 201 auf das Haus',
    ]  # fmt: skip
    # Only words that the reference lacks are marked; compared with the first system, others are.
    marked = page.locator('.open .texts mark')
    assert marked.all_inner_texts() == ['Haus', 'Antwort', 'auf', 'das', 'Haus']
    page.get_by_label('Differences to').select_option('0')
    assert marked.all_inner_texts() == ['Antwort', 'auf', 'das']
    page.fill('[name=text]', 'nowhere at all')
    assert count(page) == '0' and 'No example' in page.inner_text('.open')
    assert chromium.fits(page) and spilling(page) == []
    page.screenshot(path=tmp_path / 'examples.png')


def test_any_text_is_shown_and_none_runs(open_report):
    page = open_report(PHONE)
    page.locator('.list').focus()
    opened = page.locator('.open .card .text').first
    assert opened.inner_text() == ATTACK + ' '
    page.keyboard.press('ArrowDown')
    assert opened.inner_text() == HEBREW + ' '
    assert opened.evaluate('e => getComputedStyle(e).direction') == 'rtl'
    page.keyboard.press('ArrowDown')
    assert opened.inner_text() == FAMILY + ' '
    page.keyboard.press('ArrowDown')
    assert opened.evaluate('e => e.getBoundingClientRect().height') < 300
    page.locator('.open .card button').first.click()
    assert opened.inner_text().count('wort') == 1000
    assert opened.evaluate('e => e.getBoundingClientRect().height') > 300
    assert chromium.fits(page) and spilling(page) == []
    page.keyboard.press('Tab')
    assert page.evaluate('window.hurt') is None


def test_ten_thousand_examples_stay_quick(open_report):
    """Generous bounds: a machine under load is slow, and a page that draws all rows slower yet."""
    page = open_report()
    took = page.evaluate("""() => {
        const timed = (act) => {
          const began = performance.now();
          act();
          document.body.offsetHeight;
          return performance.now() - began;
        };
        const list = document.querySelector('.list');
        const search = document.querySelector('[name=text]');
        const scroll = timed(() => {
          for (let i = 1; i <= 50; i++) {
            list.scrollTop = i * 12000;
            list.dispatchEvent(new Event('scroll'));
          }
        });
        const filter = timed(() => {
          search.value = 'haus';
          search.dispatchEvent(new Event('input', {bubbles: true}));
        });
        return {scroll: scroll / 50, filter, rows: document.querySelectorAll('.row').length};
    }""")
    assert took['rows'] < 40
    assert took['scroll'] < 100 and took['filter'] < 2000, took  # Milliseconds.
    page.locator('.list').focus()
    page.keyboard.press('End')
    chosen = page.locator('.row[aria-selected=true]')
    assert chosen.get_attribute('aria-posinset') == count(page).replace(',', '')


@pytest.fixture(scope='module')
def every_table(tmp_path_factory):
    """A report with each kind of table: many columns, a row a language, differences, costs."""
    folder = tmp_path_factory.mktemp('tables')
    qg, sg = QG.evaluate, MTG.scenario('multi', 'sg').evaluate
    paths = []
    for i, name in enumerate(('one', 'two', 'three')):
        info = {'config': {'seed': 0, 'name': name, 'optimizer': {'rate': 10.0**-i}}, 'seed': 0}
        path = write_workdir(folder / name, 20.0 + i, tasks=(*qg, *sg),
                             info=info)  # fmt: skip
        paths.append(path)
        for task in (*qg, *sg):
            scores = [20.0 + i + (-1) ** j * (i + j % 3) for j in range(30)]
            lines = [
                {'id': j, 'target': 'a b', 'prediction': name, 'scores': {'rouge_l': score}}
                for j, score in enumerate(scores)
            ]
            write_predictions(path, task, lines)
            mean = {'rouge_l': sum(scores) / len(scores)}
            scored = path / 'eval' / '10' / 'test' / task
            change(scored, lambda was, mean=mean: {'scores': was['scores'] | mean})
    for setting in ('zero_shot', 'multi'):
        scenario = MRS.scenario(setting, 'generation')
        paths.append(
            write_workdir(folder / setting, 30.0, mixture=scenario.mixture,
                          tasks=scenario.evaluate, baselines=False)
        )  # fmt: skip
    sections = sections_of(*paths)
    path = folder / 'report.html'
    path.write_text(documents.html(comparisons.beside(sections, 't-test')), encoding='utf-8')
    return path


@pytest.mark.parametrize('width', [1280, 390])
def test_every_cell_lies_under_its_head(open_page, every_table, width, tmp_path):
    page = open_page(every_table, {'width': width, 'height': 900})
    for folded in page.locator('summary').all():
        if folded.is_visible():
            folded.click()
    # Of each table: its title, cells that are not below their head, whether it scrolls unsaid, and
    # whether its last column is out of sight.
    tables = page.evaluate("""() => [...document.querySelectorAll('table')].map((table) => {
        const place = (cell) => cell.getBoundingClientRect();
        const heads = [...table.tHead.rows].at(-1).cells;
        const odd = [...table.tBodies[0].rows].flatMap((row) => [...row.cells].filter((cell, i) =>
            row.cells.length !== heads.length
            || Math.abs(place(cell).left - place(heads[i]).left) > 1
            || Math.abs(place(cell).right - place(heads[i]).right) > 1));
        const box = table.closest('.scroll') ?? table.parentElement;
        const style = getComputedStyle(box);
        const last = place([...heads].at(-1)).right, right = place(box).right;
        return {
          title: table.caption.textContent,
          odd: odd.map((cell) => cell.textContent),
          isUnsaid: table.scrollWidth > box.clientWidth + 1
              && !(style.overflowX === 'auto' && style.backgroundAttachment.includes('local')),
          isOverallHidden: table.classList.contains('overall') && last > right + 1,
        };
    })""")
    page.screenshot(path=tmp_path / 'page.png', full_page=True)
    titles = ' '.join(table['title'] for table in tables)
    for kind in ('rouge_l, test', 'Differences of', 'The best system minus'):
        assert kind in titles
    assert page.locator('table.overall').count() and page.locator('tr.p').count()
    assert [t for t in tables if t['odd'] or t['isUnsaid'] or t['isOverallHidden']] == []
    assert chromium.fits(page) and spilling(page) == []
