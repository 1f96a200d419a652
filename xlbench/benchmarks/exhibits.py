"""The tables and figures of a paper that are made from finished runs."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """A table or a figure of a paper.

    Attributes:
        name: As the paper calls it. Example: Table 7.
        title: What it shows.
        shows: What makes it, one of `xlbench.reporting.exhibits.making.MAKERS`.
        tasks: The benchmark's tasks that it is about; none: all of them.
        scenarios: Those that it compares, in its order; none: all of them.
        scores: Those that it shows, in its order; none: the one that stands for a text.
        models: The paper's models that it is about; none: all of them.
        sources: The source languages of its pairs; none: all of them.
        printed: The file of paper_scores with its numbers, where these are not among those that
            `Benchmark.paper_scores` gives; '' for none.
    """

    name: str
    title: str
    shows: str
    tasks: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    printed: str = ''
