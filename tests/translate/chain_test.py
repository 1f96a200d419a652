"""Chains: both orders, what is done again and what is not, and everything that cannot be."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable

import pytest
import quick_compilation
import shouting
import tiny
import warm
from shouting import asked

from xlbench import predict, report
from xlbench.data import outputs
from xlbench.reporting import results
from xlbench.system import errors
from xlbench.translate import chain_command as command, chains, jobs, neural

TASK = 'mtg_qg_en_de'
COUNT = tiny.SIZES['test']
LOAD_ONCE = functools.cache(neural.load)  # For models that answer nothing.
TEXTS = [text.removeprefix('<de> ') for text, _ in tiny.examples(TASK, 'test')]


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> pathlib.Path:
    """A data root with a task that goes from one language to another."""
    root = tmp_path_factory.mktemp('chain_root')
    tiny.write_root(root, [TASK])
    return root


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The name of an engine that is a program; `asked` has the texts that it got."""
    return shouting.write(tmp_path, monkeypatch)


def run(folder: pathlib.Path, root: pathlib.Path, *argv: str) -> int:
    flags = [f'--task={TASK}', f'--root={root}', '--cache=cache', '--workdir=out', '--system=S']
    with contextlib.chdir(folder):
        return errors.run_main(command.main, ['chain', *flags, *argv])


def rows(folder: pathlib.Path, number: int) -> list[str]:
    """The first text of each example in a stage's output."""
    path = folder / 'out' / 'stages' / TASK / 'test' / f'{number}.jsonl'
    return [json.loads(line)['texts'][0] for line in path.read_text().splitlines()]


def predictions(folder: pathlib.Path) -> list[dict]:
    path = folder / 'out' / 'eval' / '0' / 'test' / TASK / 'predictions.jsonl'
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    """All that a chain leaves, but for what depends on the clock."""
    left = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / 'out').rglob('*'))
        if path.is_file() and path.name != 'metrics.json'
    }
    return left | {name: text.encode() for name, text in tiny.results(folder / 'out').items()}


@pytest.fixture(scope='module')
def model(tiny_run) -> predict.Model:
    return predict.load(str(tiny_run))


def test_summarise_then_translate(tiny_run, model, root, tmp_path, program, capfd):
    """The outputs of stages, scores as of any run, and a row in a report."""
    assert run(tmp_path, root, str(tiny_run), f'translate:{program}') == 0
    written = model.generate(TEXTS, target_lang='en')
    expected = [f'de:{text.upper()}' if text.strip() else '' for text in written]
    assert [rows(tmp_path, i) for i in range(3)] == [TEXTS, written, expected]
    scored = results.read_run(tmp_path / 'out')
    result = scored.evaluations[0][TASK, 'test']
    assert scored.system == 'S' and result.num_examples == COUNT
    assert result.decoding['method'] == 'chain'
    first, second = result.decoding['stages'].items()
    assert first[0] == f'1 {tiny_run}' and first[1].startswith('en-en, model ')
    assert second[0] == f'2 translate:{program}' and second[1].startswith('en-de, ')
    assert [line['prediction'] for line in predictions(tmp_path)] == expected
    capfd.readouterr()
    assert errors.run_main(report.main, [str(tmp_path / 'out'), str(tiny_run)]) == 0
    assert '| S |' in ' '.join(capfd.readouterr().out.split())


def test_translate_then_summarise(tiny_run, model, root, tmp_path, program, capfd):
    """Dialogues turn by turn; the second stage reads what the first one wrote."""
    assert run(tmp_path, root, f'translate:{program}', str(tiny_run)) == 0
    translated = [f'de:{text.upper()}' for text in TEXTS]
    assert rows(tmp_path, 1) == translated
    with pytest.warns(UserWarning, match='were cut'):
        expected = model.generate(translated, target_lang='de')
    assert rows(tmp_path, 2) == expected
    assert 'texts were too long for the model, and truncated' in capfd.readouterr().err
    chained = chains.answers(TEXTS[4:7], [f'translate:{program}', str(tiny_run)], 'en', 'de')
    assert chained == rows(tmp_path, 2)[4:7]
    turns = chains.answers(['Anna: Hi\nBen: No'], [f'translate:{program}'], 'en', 'de')
    assert turns == ['Anna: de:HI\nBen: de:NO']


def test_only_what_has_changed_is_done_again(tiny_run, root, tmp_path, program, capfd):
    """Nothing, where no model, setting or input is another one; and else what depends on it."""
    model = tmp_path / 'model'
    shutil.copytree(tiny_run, model)

    def stages_done(*chain: str) -> list[str]:
        capfd.readouterr()
        assert run(tmp_path, root, *chain) == 0
        said = [line for line in capfd.readouterr().err.splitlines() if line.startswith('stage ')]
        return [line.rpartition('): ')[2] for line in said]

    both = str(model), f'translate:{program}'
    done = f'0 texts done, {COUNT} from the cache'
    assert done not in stages_done(*both)
    before = files_of(tmp_path)
    # Nothing has changed; outputs that were altered are as they were.
    path = tmp_path / 'out' / 'stages' / TASK / 'test' / '1.jsonl'
    path.write_bytes(path.read_bytes()[:-9])
    first, second = stages_done(*both)
    assert first == done and second.startswith('0 texts done, ')
    assert files_of(tmp_path) == before
    # Another version of the engine.
    first, second = stages_done(both[0], f'--engine_version=2 translate:{program}')
    assert first == done and not second.startswith('0 texts done, ')
    # Other settings of the first stage; the second one translates what is new, and no more.
    asked_before = asked(tmp_path)
    first, second = stages_done(f'{model} --max_length=3', both[1])
    assert first == f'{COUNT} texts done, 0 from the cache' and second != done
    assert set(asked(tmp_path)[len(asked_before) :]).isdisjoint(asked_before)
    # Another model at the same place.
    shutil.rmtree(model / 'checkpoints' / '13')
    first, second = stages_done(*both)
    assert first == f'{COUNT} texts done, 0 from the cache' and second != done
    assert rows(tmp_path, 1) == predict.load(str(model)).generate(TEXTS, target_lang='en')
    # Other inputs.
    assert stages_done(*both, '--num_examples=5') == ['0 texts done, 5 from the cache'] * 2
    assert len(rows(tmp_path, 2)) == 5


def test_several_texts_of_an_example(tiny_run, model, root, tmp_path, program):
    """All that a model returns is translated, and the metrics get it."""
    summariser = f'{tiny_run} --num_beams=3 --num_return=2'
    assert run(tmp_path, root, summariser, f'translate:{program}') == 0
    n_best = model.generate(TEXTS, target_lang='en', num_beams=3, num_return=2)
    assert [[x['prediction'] for x in line['n_best']] for line in predictions(tmp_path)] == [
        [f'de:{x.text.upper()}' if x.text.strip() else '' for x in row] for row in n_best
    ]


def test_texts_that_are_not_translated(root, tmp_path, program, capfd):
    """They end the chain, unless the user takes empty texts; the others are kept."""
    table = tmp_path / 'made.jsonl'
    pairs = [{'source': text, 'translation': f'de {text}'} for text in TEXTS[1:]]
    table.write_text(''.join(json.dumps(pair) + '\n' for pair in pairs))
    stage = f'translate:file:{table}'
    assert run(tmp_path, root, stage) == 2
    error = capfd.readouterr().err
    assert 'stage 1' in error and '1 texts were not translated; the one of example 0:' in error
    assert not (tmp_path / 'out' / 'eval').exists()
    assert run(tmp_path, root, stage, '--failed=empty') == 0
    assert rows(tmp_path, 1)[:2] == ['', f'de {TEXTS[1]}']
    assert run(tmp_path, root, stage) == 2  # Empty texts are accepted by who asks for them.


def test_names_and_languages_of_stages():
    """What a table calls a stage; a chain through another language, such as MRS's replies."""
    titles = {
        'RUNS/bart@300': 'bart',
        'translate:Helsinki-NLP/opus-mt-en-de --num_beams=6': 'opus-mt-en-de',
        'translate:apertium': 'Apertium',
        'translate:http://localhost:5000': 'LibreTranslate',
        'translate:file:made/google.de.tsv': 'google',
        "--timeout=9 translate:command:/bin/engine --to={target} 'a b'": 'engine',
    }
    assert [chains.parse(text).title for text in titles] == list(titles.values())
    command = chains.parse(list(titles)[-1])
    assert command.spec == "command:/bin/engine --to={target} 'a b'" and command.timeout == 9
    chain = ['translate:apertium --target_lang=en', 'RUNS/replies', 'translate:apertium']
    planned = chains.plan([chains.parse(text) for text in chain], 'de', 'de')
    assert [stage.source + stage.target for stage in planned] == ['deen', 'enen', 'ende']


def test_inputs_of_another_task(root, tmp_path, program, capfd, monkeypatch):
    """The same examples in another form, such as the views of a dialogue."""
    other = tiny.TITLES[0]
    flags = [f'translate:{program}', f'--input_task={other}']
    assert run(tmp_path, root, *flags, '--num_examples=7') == 0
    texts = [text.removeprefix('<en> ') for text, _ in tiny.examples(other, 'test')[:7]]
    assert rows(tmp_path, 0) == texts
    assert predictions(tmp_path)[0]['target'] == tiny.examples(TASK, 'test')[0][1]
    read = outputs.prepared_references

    def other_ids(task):
        return dataclasses.replace(read(task), ids=[f'{task.name}{i}' for i in range(COUNT)])

    monkeypatch.setattr(outputs, 'prepared_references', other_ids)
    assert run(tmp_path, root, *flags) == 2
    assert 'do not have the same ids in the same order' in capfd.readouterr().err


def test_a_stage_may_begin_with_a_flag_that_the_chain_has_too(root, tmp_path, program):
    """Its language is that of the stage, in front of a command as behind a name."""
    chain = [f'--target_lang=fr translate:{program}', f'translate:{program}']
    assert run(tmp_path, root, *chain, '--num_examples=3') == 0
    assert rows(tmp_path, 1)[1] == f'fr:{TEXTS[1].upper()}'
    assert rows(tmp_path, 2)[1] == f'de:FR:{TEXTS[1].upper()}'


def test_a_language_without_references_is_not_scored(root, tmp_path, program, capfd):
    assert run(tmp_path, root, f'translate:{program}', '--target_lang=fr') == 0
    assert f'{TASK} has no references in fr: nothing was scored' in capfd.readouterr().err
    assert rows(tmp_path, 1)[0] == f'fr:{TEXTS[0].upper()}'
    assert not (tmp_path / 'out' / 'eval').exists()
    # The folder is that of this system: another one is refused.
    assert run(tmp_path, root, f'translate:{program}', '--system=T') == 2
    assert "has the scores of system 'S' with seed 0, and this is 'T'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ('chain', 'message'),
    [
        (['RUN'], 'the chain ends in en, but its texts must be in de; add a stage translate:'),
        (['ENGINE', 'ENGINE'], r'stage 2 \(translate:command:.*\) translates into de, but its'),
        (['ENGINE', 'RUN', 'ENGINE'], 'stage 3 .* is already in de; leave it out, or name another'),
        (['RUN --num_beams=2 --num_return=2', 'RUN', 'ENGINE'], 'reads one text for each example'),
        (['RUN', 'translate:'], "the stage 'translate:' is empty; a stage is a model"),
        (['RUN --beams=5', 'ENGINE'], "the stage 'RUN --beams=5': unrecognized arguments: --beams"),
        (['RUN', 'translate:apertium --num_beams=2'], 'for models, and apertium is not a model'),
        (['RUN', 'translate:RUN --num_return=2'], 'a translation is one text; leave out'),
        (["RUN 'x", 'ENGINE'], 'cannot be read: No closing quotation; quotes come in pairs'),
        (['no/such', 'ENGINE'], 'stage 1: .*no/such'),
        (['RUN', 'translate:no-such-folder/x/y'], 'stage 2: '),
        (['RUN', 'translate:command:no-such-program'], "there is no program 'no-such-program'"),
        (['RUN --target_lang=xx', 'ENGINE'], "language in --target_lang of stage 1.* 'xx'"),
        (['translate:RUN --target_lang=fr', 'RUN', 'ENGINE'], "not know the target language 'fr'"),
        (['RUN --target_lang=de'], 'was trained from de to de, but the texts are in en; name'),
        (['RUN', 'ENGINE', '--num_examples=99'], f'has {COUNT} examples'),
        (['RUN', 'ENGINE', '--workdir=RUN'], 'is the workdir of a run; name another'),
        (['RUN', 'ENGINE', '--split=dev'], 'is not prepared'),
    ],
)  # fmt: skip
def test_what_cannot_be(tiny_run, root, tmp_path, program, capfd, monkeypatch, chain, message):
    """One line, before anything has worked or was written."""
    monkeypatch.setattr(neural, 'load', LOAD_ONCE)
    names = {'RUN': str(tiny_run), 'ENGINE': f'translate:{program}'}
    argv = [re.sub('RUN|ENGINE', lambda match: names[match[0]], part) for part in chain]
    assert run(tmp_path, root, *argv) == 2
    said = [line for line in capfd.readouterr().err.splitlines() if 'xlbench.predict' not in line]
    assert len(said) == 1 and re.search(message.replace('RUN', str(tiny_run)), said[0]), said
    assert not asked(tmp_path) and not (tmp_path / 'out').exists()


@pytest.mark.nightly
def test_a_chain_that_is_killed_in_any_stage_goes_on(tiny_run, root, tmp_path, program):
    """The same command ends with the bytes of an undisturbed one, and asks for nothing twice."""
    command = [
        warm.python(), '-m', 'xlbench.translate', 'chain',
        f'{tiny_run} --batch_size=1', f'translate:{program}',
        f'--task={TASK}', f'--root={root}', '--cache=cache', '--workdir=out',
    ]  # fmt: skip

    def start(until: Callable[[], bool] | None, **environment: str) -> None:
        """Runs the command, or kills it as soon as something is so."""
        environment['XLA_FLAGS'] = quick_compilation.xla_flags(1)  # A batch of 1 has 1 device.
        process = subprocess.Popen(command, cwd=tmp_path, env=os.environ | environment)
        while until and process.poll() is None and not until():
            time.sleep(0.01)
        if until:
            process.kill()
        assert process.wait() == (-signal.SIGKILL if until else 0)

    def kept() -> int:
        """The answers that the first stage has given so far."""
        path = tmp_path / 'cache' / jobs.FILE
        if not path.exists():
            return 0
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as rows:
            return rows.execute('SELECT count(*) FROM kept').fetchone()[0]
        return 0

    first = tmp_path / 'out' / 'stages' / TASK / 'test' / '1.jsonl'
    start(lambda: kept() > 0)
    assert not first.exists() and kept() < len(set(TEXTS))
    start(lambda: bool(asked(tmp_path)), WAIT_AT='*')
    assert first.exists() and not first.with_name('2.jsonl').exists()
    written_once = first.read_bytes()
    start(None)
    assert first.read_bytes() == written_once
    ended = files_of(tmp_path)
    for name in ('out', 'cache'):
        shutil.rmtree(tmp_path / name)
    start(None)
    assert ended == files_of(tmp_path)
    assert not [path for path in (tmp_path / 'out').rglob('*') if path.name.endswith('.tmp')]
