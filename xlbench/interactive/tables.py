"""Makes pandas frames. pandas is imported here alone, when the first frame is made."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xlbench.system.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

# What a cell of a frame may hold.
Cell = str | int | float | Sequence[str] | Sequence[float] | None


def frame(rows: Iterable[Mapping[str, Cell]], index: Sequence[str] = ()) -> 'pd.DataFrame':
    """Makes a frame of rows; a row without a column of the others has NaN there.

    Args:
        rows: Column to value.
        index: The columns that name a row.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise UserError(
            "frames need the package pandas: python -m uv pip install 'pandas>=2.2'"
        ) from None
    made = pd.DataFrame(list(rows))
    return made.set_index(list(index)) if index and len(made) else made
