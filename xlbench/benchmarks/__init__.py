"""The benchmarks, with their tasks, languages, scenarios, sizes, scores and papers.

Every name of a task or a mixture comes from here, in both directions:

  MTG.task_name('qg', 'en', 'de')                 -> 'mtg_qg_en_de'
  MTG.scenario('cross', task='qg', source='en')   -> trains and evaluates en -> de, fr, es
  parse_task('mtg_qg_en_de')                      -> ('mtg', 'qg', 'en', 'de')

A new benchmark is one more file, which declares it; a file in papers/ has the tables of its paper
and what makes them, and a CSV in paper_scores/ the printed numbers. What kinds of benchmarks share
stands in benchmark.py, parallel.py (each example in each language, or in a pair), monolingual.py
(each in one), fewshot.py and clidsum.py. Modules of their own:

  further     benchmarks that are a declaration alone
  languages   a row per language
  task_files  which files of a user are imported
  paper       a paper's table: rows, columns, printed numbers
  recipe      commands and experiments that make such tables
  topics      what a sweep of few-shot transfer can be about
"""

from xlbench.benchmarks.benchmark import RATES, Added, Benchmark, Scenario, TaskName
from xlbench.benchmarks.clidsum import CLIDSUM, SummaryBenchmark
from xlbench.benchmarks.crosssum import CROSSSUM
from xlbench.benchmarks.fewshot import FEWSHOT, LabelBenchmark
from xlbench.benchmarks.further import (
    CONVSUMX,
    DIALOGSUM,
    MASAKHANER2,
    MASAKHANEWS,
    SIB200,
    TRANSLATION,
    XDAILYDIALOG,
    XPERSONA,
    XQUAD,
)
from xlbench.benchmarks.lookup import BENCHMARKS, RECIPES, get, parse_mixture, parse_task
from xlbench.benchmarks.monolingual import SETTING_TITLES, ReplyBenchmark
from xlbench.benchmarks.mrs import MRS
from xlbench.benchmarks.mtg import MTG, MTG2
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.parallel import SCENARIO_TITLES, SCENARIOS, PairBenchmark, ParallelBenchmark

__all__ = [
    'BENCHMARKS', 'CLIDSUM', 'CONVSUMX', 'CROSSSUM', 'DIALOGSUM', 'FEWSHOT', 'MASAKHANER2',
    'MASAKHANEWS', 'MRS', 'MTG', 'MTG2', 'RATES', 'RECIPES', 'SCENARIOS', 'SCENARIO_TITLES',
    'SETTING_TITLES', 'SIB200', 'TRANSLATION', 'XDAILYDIALOG', 'XPERSONA', 'XQUAD', 'Added',
    'Benchmark', 'LabelBenchmark', 'PairBenchmark', 'PaperTable', 'ParallelBenchmark',
    'ReplyBenchmark', 'Scenario', 'SummaryBenchmark', 'TaskName', 'get', 'parse_mixture',
    'parse_task',
]  # fmt: skip
