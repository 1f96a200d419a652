"""Reply suggestion: the kind of benchmark that MRS is."""

import dataclasses
from collections.abc import Mapping

from xlbench import errors
from xlbench.benchmarks.benchmark import Benchmark, Scenario

# The settings of reply suggestion. `zero_shot` asks for replies in languages that training had none
# of; `mt` trains on English pairs that were machine-translated into the language it asks for.
REPLY_SCENARIOS = ('mono', 'zero_shot', 'mt', 'multi')

# The settings as columns, in the order of that paper's tables.
SETTING_TITLES = {
    'mono': 'Monolingual',
    'zero_shot': 'Zero-Shot',
    'mt': 'MT',
    'multi': 'Multilingual',
}

# What the paper of reply suggestion prints (arXiv:2106.02017, section 3.3), and how well replies
# are ranked: in a random pool, and in the response set; last as the official code counts.
REPLY_SCORES = ('mrs_rouge', 'dist_1', 'dist_2')
RANKING_SCORES = (
    'recall_10', 'mrr', 'p_at_1', 'set_mrr', 'set_p_at_1', 'set_macro_mrr',
    'mrr_code', 'p_at_3_code', 'macro_mrr_code',
)  # fmt: skip

TASKS = {'retrieval': 'reply from a response set', 'generation': 'generated reply'}

# How a language's pairs are split (arXiv:2106.02017, section 2), and how far a split's size may be
# from its share of the published total: the counts of the splits themselves are not published, and
# readers drop pairs with an empty side. Below 1 % for the smallest language, ru, would refuse what
# a random split of it may well have (one standard deviation of its test split is 0.4 %).
_SHARES = {'train': 0.8, 'validation': 0.1, 'test': 0.1}
_TOLERANCE = 0.01


@dataclasses.dataclass(frozen=True)
class ReplyBenchmark(Benchmark):
    """Messages with their replies, both in one language; not parallel between languages.

    Its tasks are two views of the same pairs: 'retrieval' from a response set, and 'generation'.

    Attributes:
        multi: The languages that the multilingual setting trains on; every other one is unseen.
        has_mt: Whether there are machine-translated pairs, the split 'mt_train'.
        num_pairs: Official number of pairs of each language, all splits together.
        num_responses: Official size of each language's response set.
        num_mt_pairs: Official number of machine-translated pairs, of each language.
        paper_checkpoints: What the paper's models were initialised with.
    """

    scenario_names: tuple[str, ...] = REPLY_SCENARIOS
    tables: tuple[tuple[str, ...], ...] = (REPLY_SCORES, RANKING_SCORES)
    decimals: int = 2
    size_tolerance: float = _TOLERANCE
    multi: tuple[str, ...] = ()
    has_mt: bool = False
    num_pairs: Mapping[str, int] = dataclasses.field(hash=False, default_factory=dict)
    num_responses: Mapping[str, int] = dataclasses.field(hash=False, default_factory=dict)
    num_mt_pairs: int = 0
    paper_checkpoints: Mapping[str, str] = dataclasses.field(hash=False, default_factory=dict)

    def task_names(self) -> tuple[str, ...]:
        """Every SeqIO task of the benchmark: both views, each language."""
        return tuple(self.task_name(task, lang) for task in self.tasks for lang in self.languages)

    def scenario(
        self,
        name: str,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Scenario:
        """One setting, of one view (arXiv:2106.02017, section 3.2).

        Args:
            name: One of `scenario_names`.
            task: 'retrieval' or 'generation'.
            source: The language of mono and mt; narrows what zero_shot and multi evaluate to one.
            target: None or the source: a reply is in the language of its message.
        """
        allowed = [n for n in self.scenario_names if n != 'mt' or self.has_mt]
        if name not in allowed:
            raise errors.unknown('scenario', name, allowed)
        self._check(task, source, target)
        task = self._task_of(name, task)
        source = source or target
        if name in ('mono', 'mt'):
            return self._one_language(name, task, source)
        train, others = self.multi, self.languages
        if name == 'zero_shot':
            train = (self.pivot,)
            others = tuple(lang for lang in self.languages if lang != self.pivot)
        if source is not None and source not in others:
            raise errors.UserError(
                f"scenario 'zero_shot' trains on {self.pivot} and evaluates another language, got "
                f'{source}'
            )
        return Scenario(
            name,
            f'{self.name}_{name}_{task}',
            train=tuple(self.task_name(task, lang) for lang in train),
            evaluate=tuple(self.task_name(task, lang) for lang in others if source in (None, lang)),
            task=task,
            source=source,
            target=source,
        )

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name."""
        scenarios = []
        for task in self.tasks:
            scenarios += [self.scenario('mono', task, lang) for lang in self.languages]
            if self.has_mt:
                others = (lang for lang in self.languages if lang != self.pivot)
                scenarios += [self.scenario('mt', task, lang) for lang in others]
            scenarios += [self.scenario('zero_shot', task), self.scenario('multi', task)]
        return tuple(scenarios)

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The number of examples of a split, as far as it is published; None if it is not."""
        if split == 'responses':
            return self.num_responses.get(source)
        if split == 'mt_train':
            return self.num_mt_pairs or None
        if split not in _SHARES or source not in self.num_pairs:
            return None
        return round(_SHARES[split] * self.num_pairs[source])

    def is_official(self, task: str, split: str, num_examples: int, source: str = '') -> bool:
        """Whether a split has the published number of examples, up to 1 %."""
        size = self.official_size(task, split, source)
        return size is not None and abs(num_examples - size) <= self.size_tolerance * size

    def _one_language(self, name: str, task: str | None, source: str | None) -> Scenario:
        pivot = self.pivot if name == 'mt' else None
        allowed = [lang for lang in self.languages if lang != pivot]
        if source not in allowed:
            raise errors.UserError(
                f'scenario {name!r} trains one language, got {source}; give source, one of '
                f'{", ".join(allowed)}'
            )
        tasks = (self.task_name(task, source),)
        mixture = f'{self.name}_{name}_{task}_{source}'
        if name == 'mono':
            return Scenario(name, mixture, tasks, tasks, task, source, source)
        # Pairs that were written in the language are what this setting does without: the pairs
        # that were translated are English.
        select = (self.task_name(task, self.pivot),)
        return Scenario(name, mixture, tasks, tasks, task, source, source, 'mt_train', select)

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if target is not None and target != source and source is not None:
            raise errors.UserError(
                f'replies of {self.name} are in the language of their message, got {source} -> '
                f'{target}; leave out the target'
            )
