r"""Makes pages for human judges, and tables of their ratings.

  python -m xlbench.annotate make RUNS/a RUNS/b other=out.jsonl --output=study --judges=anna,ben
  python -m xlbench.annotate score study/key.json answers-*.json --output=study/scores
  python -m xlbench.annotate fit study/scores/ratings.jsonl --lang=de --output=rating.json

`make` chooses examples that all systems have, and writes one HTML page for each judge,
study/pages/. A page works offline in any browser, keeps the answers there, and saves them as a
file, which the judge sends back. Only study/key.json, which you keep, says which system wrote what.

A system is a workdir (the texts of its evaluation), or a file: JSONL with `prediction`, and `id`,
`input` and `target` where they are known, or lines of text. NAME= before it names the system.

--scale=ratings rates each text from 1 to 5 for grammar, fluency and relevance, as MTG does
(arXiv:2108.07140); --scale=best_worst chooses the best and the worst text for grammaticality,
informativeness and conciseness, as ClidSum does (arXiv:2202.05599); --scale=FILE.json has aspects
and guidelines of your own. --scale=replies --sets=3 shows the three replies of each system, a
generator's and a retriever's for example, and asks which set people prefer (arXiv:2106.02017); both
then have the name of the retrieval task, as in --tasks=mrs_retrieval_en_en.

`score` prints means or best-worst scores with 95 % intervals, Fleiss' kappa and Krippendorff's
alpha, and which differences are significant. Unfinished answers are named, and the finished part
counts; files that were altered or belong to another study are refused.

`fit` fits nine regressors of scikit-learn to such ratings, with the scores of --metrics as
features, and keeps the one that correlates best with ratings it has not seen. Its file, plain JSON,
says what it was fitted on; `python -m xlbench.score --metrics=fitted_rating=FILE` scores texts.
"""

import argparse
import pathlib
import sys

from xlbench.reporting import render
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, flag, whole, words
from xlbench.system.errors import UserError

_MARK = 'xlbench judgement: made by python -m xlbench.annotate, may be overwritten'


def _make(args: argparse.Namespace) -> int:
    from xlbench.judgement import sources, studies  # They load for a second.

    judges = _judges(args.judges)
    output = pathlib.Path(args.output)
    files.check_new(output)
    scale = studies.load_scale(args.scale)
    systems = sources.read(args.systems, args.step, args.split, args.tasks, args.task, args.sets)
    study = studies.make(
        systems,
        scale,
        judges,
        items=args.items,
        shown=args.shown,
        seed=args.seed,
        title=args.title,
        langs=(args.source_lang or args.lang, args.lang),
    )
    names = [studies.page_name(sheet) for sheet in study.sheets]
    if len({name.lower() for name in names}) < len(names):
        raise UserError(f'--judges={args.judges}: two names give the same name of a file')
    with locks.atomic_folder(output) as folder:  # Pages without their key would be of no use.
        (folder / 'pages').mkdir()  # Apart from the key, which nobody may send with them.
        for sheet, name in zip(study.sheets, names, strict=True):
            files.write(folder / 'pages' / name, studies.document(study, sheet))
        files.write(folder / 'key.json', studies.encode(study))
    tasks = len({item.task for item in study.items})
    print(f'{len(study.items)} items of {tasks} tasks, {len(study.systems)} systems')
    for name in names:
        print(f'wrote {output / "pages" / name}')
    print(f'wrote {output / "key.json"}; keep it to yourself: it says which system wrote what')
    return 0


def _score(args: argparse.Namespace) -> int:
    from xlbench.judgement import answers, scores, studies
    from xlbench.reporting import documents

    study = studies.read(args.key)
    judged = answers.read(args.answers, study)
    tables = scores.tables(study, judged)
    print('\n\n'.join(map(render.screen, tables)))
    if args.output:
        texts = {
            'judgement.md': '\n\n'.join([f'<!-- {_MARK} -->', *map(render.markdown, tables)]),
            'judgement.tex': render.latex_document(list(map(render.latex, tables)), _MARK),
            'ratings.jsonl': scores.rated_texts(study, judged),
        }
        what, heads = 'of xlbench.annotate', ['{"study": ']
        for path in documents.write_texts(texts, args.output, what, [_MARK], heads):
            print(f'wrote {path}')
    return 0


def _fit(args: argparse.Namespace) -> int:
    from xlbench.judgement import fitting
    from xlbench.metrics import fitted_rating

    output, heads = args.output, ['{"format":"xlbench fitted rating ']
    files.check_own(output, 'a fitted rating', heads=heads)
    metrics = args.metrics or list(fitting.METRICS)
    data = fitting.read(args.ratings, metrics, args.lang)
    kept, tables = fitting.fit(data, args.target, metrics, args.seed)
    print('\n\n'.join(map(render.screen, tables)))
    with locks.file(output):
        files.check_own(output, 'a fitted rating', heads=heads)
        files.write(output, fitted_rating.encode(kept))
    print(f'wrote {output}: {kept.regressor}, which predicts {kept.target}')
    return 0


def _judges(text: str) -> list[str]:
    """The names of the judges: those that are given, or as many as a number says."""
    if text.isascii() and text.isdigit():
        if not 0 < int(text[:4]) <= 100 or len(text) > 3:
            raise UserError(f'--judges={text}; 1 to 100 is allowed')
        return [f'judge-{i}' for i in range(1, int(text) + 1)]
    names = list(words(text))
    if not names or len(set(names)) < len(names):
        raise UserError(f'--judges={text}; give a number, or different names with commas between')
    for name in names:
        if not name.isprintable() or len(name) > 40:
            raise UserError(
                f'--judges: {errors.shortened(name)} is not a name of at most 40 letters'
            )
    return names


_MAKE = (
    flag('systems', 'workdirs or files of predictions; NAME=PLACE', nargs='+'),
    flag('--output', 'folder to make; it must not exist', required=True),
    flag('--scale', 'ratings, best_worst, replies or a JSON file of yours', 'ratings'),
    flag('--sets', 'texts of each system (default: 1)', 0, type=whole(0)),
    flag('--judges', 'number of judges, or their names', '2'),
    flag('--items', 'examples of each task; 0: all', 50),
    flag('--shown', 'systems of each item (default: all)', 0),
    flag('--tasks', 'tasks of runs (default: all that they share)', (), type=words),
    flag('--task', 'name of the task that files are of', 'texts'),
    flag('--split', 'split of runs (default: test, else validation)', ''),
    flag('--step', 'step of runs: last, best or a number', 'last'),
    flag('--lang', "ISO code of the texts (default: the task's)", ''),
    flag('--source_lang', 'ISO code of the inputs, if it differs', ''),
    flag('--title', 'title of the pages', ''),
    flag('--seed', 'seed of samples and orders', 0),
)
_SCORE = (
    flag('key', 'key.json of the study'),
    flag('answers', 'files that the judges saved', nargs='+'),
    flag('--output', 'folder for tables and ratings.jsonl', ''),
)
_FIT = (
    flag('ratings', 'files ratings.jsonl', nargs='+'),
    flag('--output', 'file to write, such as rating.json', required=True),
    flag('--target', 'aspect to predict, or their mean', 'mean'),
    flag('--metrics', 'metrics of xlbench.score, with commas', (), type=words),
    flag('--lang', 'ISO code of texts that do not say theirs', ''),
    flag('--seed', 'seed of the split', 0),
)
COMMAND = CommandLine(
    'annotate',
    __doc__,
    commands={
        'make': ('Writes a page for each judge.', _MAKE, _make),
        'score': ('Prints tables of the answers.', _SCORE, _score),
        'fit': ('Fits automatic scores to the ratings.', _FIT, _fit),
    },
)
main = COMMAND.main

if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
