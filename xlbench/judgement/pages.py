"""A judge's page: one HTML file that loads nothing and sends nothing, see page/template.py."""

import re
from collections.abc import Mapping

from xlbench.benchmarks import languages
from xlbench.judgement import studies
from xlbench.judgement.studies import Sheet, Study
from xlbench.reporting.page import template
from xlbench.system.errors import UserError


def document(study: Study, sheet: Sheet) -> str:
    """The page of one judge."""
    data = studies.page_content(study, sheet.judge, sheet.order, sheet.slots)
    for item in data['items']:
        source, target = map(language, item.pop('langs'))
        item |= {'inputLang': source[0], 'inputDir': source[1], 'lang': target[0], 'dir': target[1]}
    data |= {'page': sheet.page, 'file': answers_name(study, sheet)}
    return html_page('page.js', data, study.title, sheet.judge)


def html_page(script_name: str, data: Mapping[str, object], title: str, name: str) -> str:
    """A page with its script behind the one that all share; beside its title stands whose it is."""
    scripts = ('page.common.js', script_name)
    return template.render(__package__, scripts, data, title=title, judge=name)


def page_name(sheet: Sheet) -> str:
    """The name of a judge's page."""
    return f'{_file_name(sheet.judge)}.html'


def answers_name(study: Study, sheet: Sheet) -> str:
    """Names the file in which a page saves its answers."""
    return f'answers-{study.id}-{_file_name(sheet.judge)}.json'


def _file_name(judge: str) -> str:
    return re.sub(r'[^\w-]+', '-', judge).strip('-') or 'judge'


def language(code: str) -> tuple[str, str]:
    """HTML's lang and dir; the browser finds the direction of an unknown language itself."""
    try:
        return code, languages.get(code).direction
    except UserError:
        return '', 'auto'
