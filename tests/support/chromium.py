"""A real Chromium for tests of pages, which must load nothing and say nothing."""

import contextlib
import pathlib
import shutil

import pytest

sync_api = pytest.importorskip('playwright.sync_api', reason='needs playwright, of the extra test')
CHROMIUM = shutil.which('chromium') or shutil.which('google-chrome') or ''


@contextlib.contextmanager
def launched():
    """The browser; skips the test where this machine has none."""
    if not CHROMIUM:
        pytest.skip('needs a Chromium on this machine: apt-get install chromium')
    with sync_api.sync_playwright() as playwright:
        # Inside a container the sandbox of Chromium cannot start; the page is our own.
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=['--no-sandbox'])
        yield opened
        opened.close()


def open_file(context, path: pathlib.Path, said: list[str]):
    """A page of a file; what it says in the console, or asks of others, is added to `said`."""
    page = context.new_page()
    page.on('console', lambda message: said.append(message.text))
    page.on('pageerror', lambda error: said.append(str(error)))
    page.on(
        'request',
        lambda r: said.append(r.url) if not r.url.startswith(('file:', 'blob:', 'data:')) else None,
    )
    page.goto(path.as_uri())
    return page


def fits(page) -> bool:
    """Nothing is wider than the window."""
    return page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')
