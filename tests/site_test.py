"""The documentation site in a real Chromium: no page is wider than a phone or a small screen."""

import subprocess
import sys

import pages
import pytest

pytestmark = pytest.mark.nightly

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


@pytest.mark.parametrize('width', [390, 1280])
def test_no_page_is_wider_than_the_screen(site, browser, width):
    page = browser.new_page(viewport={'width': width, 'height': 844})
    for path in sorted(site.rglob('*.html')):
        page.goto(path.as_uri())
        wide = page.evaluate('document.documentElement.scrollWidth')
        assert wide <= width, (path.relative_to(site), wide)
        assert page.evaluate(OVERFLOWING) == [], path.relative_to(site)


def test_the_first_page_has_a_command_its_table_and_a_picture(site, browser):
    page = browser.new_page()
    page.goto((site / 'index.html').as_uri())
    assert 'xlbench.train --config=' in page.inner_text('.highlight-sh')
    assert 'best_constant' in page.inner_text('.bd-article table')
    assert page.evaluate("document.querySelector('.bd-article img').naturalWidth") > 100
