"""The documentation holds together: its links lead somewhere."""

import re

import pages
import pytest

_LINK = re.compile(r'(?<!!)\[[^\]]*\]\(([^)\s]+)\)')


@pytest.mark.parametrize('page', pages.FILES)
def test_links_inside_the_project_lead_somewhere(page):
    """Files are there, and headings are on their pages; addresses of the web are left alone."""
    folder = pages.FILES[page].parent
    for link in _LINK.findall(pages.prose(page)):
        path, _, anchor = link.partition('#')
        if '://' in path:
            continue
        target = (folder / path).resolve() if path else pages.FILES[page]
        assert target.is_relative_to(pages.PROJECT) and target.exists(), link
        assert not anchor or anchor in pages.anchors(target.name), link


def test_the_readme_leads_to_every_page():
    linked = set(re.findall(r'\]\(docs/([\w.]+)\)', pages.FILES['README.md'].read_text('utf-8')))
    assert linked == set(pages.FILES) - {'README.md'}
