"""HTML pages that load nothing and send nothing: their own policy (CSP) forbids it.

Only the script and the style run whose hashes the policy names. Texts from files stand in a page as
JSON, which its script shows as text.
"""

import base64
import hashlib
import json
from collections.abc import Mapping


def policy(script: str, style: str, *, images: bool = False) -> str:
    """The policy of a page, for its meta element.

    Args:
        script: What stands between its only script tags, to the last character.
        style: Likewise for its style.
        images: Whether it shows images that stand in it or that it draws itself.
    """
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        + ('img-src data: blob:; ' if images else '')
        + "base-uri 'none'; form-action 'none'"
    )


def json_text(data: Mapping[str, object]) -> str:
    """Data for a script element of type application/json: nothing in it can end the element."""
    return json.dumps(data, ensure_ascii=False, separators=(',', ':')).replace('<', '\\u003c')


def _hash(text: str) -> str:
    return 'sha256-' + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
