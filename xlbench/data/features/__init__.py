"""Makes the arrays a model reads from prepared examples; numpy only.

A row of a batch holds one example, several (packing), or none (padding). Examples of one row are
told apart by segment ids, and each counts its own positions, so that a model that looks at both
computes for every example what it would compute alone.
"""

from xlbench.data.features.arrays import Conventions, tag_places, trim, trim_passage
from xlbench.data.features.views import (
    VIEWS,
    Layout,
    View,
    check_view,
    classification,
    generation,
    language_model,
    language_start,
    multi_view,
    retrieval,
)
from xlbench.data.prepared import Record as Example
