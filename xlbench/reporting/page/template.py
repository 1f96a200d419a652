"""Pages of HTML from Jinja2 templates; a page loads nothing and sends nothing.

Every text that a template shows is escaped and stays on one printable line. The page's own policy
(CSP) lets only the script and the style run whose hashes it names, and no request leave. Texts of
examples stand in a page as JSON, which its script shows as text.
"""

import base64
import functools
import hashlib
import importlib.resources
import json
from collections.abc import Mapping, Sequence

import jinja2
from markupsafe import Markup

from xlbench.reporting.tables import clean

_COMMON = 'common.js'  # Beside this file.


def render(
    package: str,
    scripts: Sequence[str],
    data: Mapping[str, object],
    *,
    images: bool = False,
    **context: object,
) -> str:
    """Fills page.html of a package, whose style is page.css beside it.

    Its script is what all pages share, then the files of the package that `scripts` names; it reads
    the data from an element of type application/json. `context` has the template's variables,
    beside `style`, `script`, `data` and `policy`.
    """
    templates = _environment(package)
    # The hashes are of what stands between the tags, with the line ends of the page.
    style = _part(package, 'page.css')
    script = '\n'.join([_part(__package__, _COMMON), *(_part(package, s) for s in scripts)])
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        + ('img-src data:; ' if images else '')
        + "base-uri 'none'; form-action 'none'"
    )
    # Nothing in the data can end the element that it stands in.
    text = json.dumps(data, ensure_ascii=False, separators=(',', ':')).replace('<', '\\u003c')
    parts = {'style': style, 'script': script, 'data': text, 'policy': policy}
    safe = {name: Markup(part) for name, part in parts.items()}
    return templates.get_template('page.html').render(**safe, **context).lstrip()


@functools.cache
def _environment(package: str) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, ''),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(value),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _part(package: str, name: str) -> str:
    return importlib.resources.files(package).joinpath(name).read_text('utf-8')


def _hash(text: str) -> str:
    return 'sha256-' + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
