"""xlbench.prompt: templates, servers that the tests start, a tiny model, and what a stop leaves."""

import json
import math
import pathlib
import types

import jax
import mtg_files
import numpy as np
import partners
import pytest
import tokenizer_files

from xlbench import config as config_lib, predict, runs
from xlbench.benchmarks import FEWSHOT, RECIPES
from xlbench.data import tokenizers
from xlbench.evaluators.generation import Example
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.parallel import partitioning
from xlbench.prompt import __main__ as prompt, engines, sweeps, templates
from xlbench.reporting import results as run_results
from xlbench.reproduce import added
from xlbench.system.errors import UserError
from xlbench.tasks import sib200
from xlbench.training import checkpoints, objectives, train_step
from xlbench.translate import external
from xlbench.translate.jobs import Job

TOPICS = sib200.TOPICS
PAIR = {'inputs_pretokenized': 'Es regnet.\tEs ist nass.', 'targets_pretokenized': 'entailment'}
WORDS = {'inputs_pretokenized': 'Musa yana Kano', 'targets_pretokenized': 'B-PER O B-LOC'}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(external, '_PAUSES', (0.0,))


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """SIB-200 in German, four sentences a topic, and MTG's titles; all made up."""
    folder = tmp_path_factory.mktemp('root')
    for part, count in (('train', 28), ('dev', 7), ('test', 7)):
        path = folder / 'sib200' / 'deu_Latn' / f'{part}.tsv'
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [f'{i}\t{TOPICS[i % 7]}\tSatz {i} über {TOPICS[i % 7]}.\n' for i in range(count)]
        path.write_text('index_id\tcategory\ttext\n' + ''.join(rows))
    mtg_files.write_mtg(folder, {'train': 7, 'test': 5}, tasks=('tg',))
    return folder


class Answers:
    """A server that finds the topic in the last sentence of a prompt.

    Attributes:
      asked: all prompts, in their order.
      limit: prompts that it answers before it is busy for good.
    """

    def __init__(self, limit=math.inf):
        self.asked, self.limit, self.keys = [], limit, set()

    def __call__(self, request):
        body = json.loads(request.body)
        self.keys.add(request.headers.get('Authorization'))
        prompts = body.get('prompt') or [body['messages'][0]['content']]
        if len(self.asked) + len(prompts) > self.limit:
            return request.send({'error': {'message': 'no room'}}, status=503)
        self.asked += prompts
        choices = [self.choice(place, text, body) for place, text in enumerate(prompts)]
        return request.send({'choices': choices})

    def choice(self, place, text, body):
        last = text.rpartition('\n\n')[2]
        word = next((topic for topic in TOPICS if topic in last), 'Der Titel\n\nText')
        if 'messages' in body:
            top = [{'token': word[:3], 'logprob': -0.1}, {'token': ' the', 'logprob': -0.2}]
            logprobs = {'content': [{'top_logprobs': top}]} if body.get('logprobs') else None
            return {'index': place, 'message': {'content': word}, 'logprobs': logprobs}
        logprobs = {'top_logprobs': [{f' {word[:3]}': -0.1, ' the': -0.2}]}
        text = '' if body.get('logprobs') else f' {word}'
        return {'index': place, 'text': text, 'logprobs': logprobs if not text else None}


def test_every_template_that_comes_along_fits_its_task():
    for path in sorted(templates._FOLDER.glob('*.yaml')):
        for lang in path.read_text().split('\n'):
            if len(lang) == 3 and lang.endswith(':'):
                template = templates.load(path.stem, lang[:2])
                made = template.prompt([(PAIR, 'x')], PAIR, 'de')
                assert '$' not in made and made.count('Es regnet.') == 2, (path, lang)
    names = {path.stem for path in templates._FOLDER.glob('*.yaml')}
    assert {*FEWSHOT.tasks, 'sib200', 'masakhaner2', 'mtg_qg', 'mrs', 'clidsum'} <= names
    for task in FEWSHOT.tasks:
        template = templates.load(task, 'en')
        words = list(template.labels.values())
        assert len({*words}) == len(words)


def test_a_prompt_has_the_shots_before_the_question():
    template = templates.load('xnli', 'de')
    assert template.prompt([(PAIR, template.answer(PAIR))], PAIR, 'de') == (
        'Folgt der zweite Satz aus dem ersten? Antworte mit ja, nein oder vielleicht.\n\n'
        'Erster Satz: Es regnet.\nZweiter Satz: Es ist nass.\nAntwort: ja\n\n'
        'Erster Satz: Es regnet.\nZweiter Satz: Es ist nass.\nAntwort:'
    )
    assert templates.load('panx', 'en').answer(WORDS, True) == 'Musa/B-PER yana/O Kano/B-LOC'
    assert 'in French' in templates.load('mtg_qg', 'en').prompt([], PAIR, 'fr')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('en: {example: "$inputs", labels: {a: b}}', ''),
        ('en: {example: "$input"}', r"unknown place in .*mine.yaml 'input'; nearest: inputs"),
        ('en: {example: "5 $ $inputs"}', r"unknown place in .*mine.yaml '\$'"),
        ('en: {exampel: x}', 'mine.yaml is no file of templates: .*exampel'),
        ('en: [', 'mine.yaml is no file of templates'),
        ('fr: {example: x}', "unknown language of templates in mine.yaml 'en'"),
        ('en: {example: !!python/object/apply:os.getcwd []}', 'no file of templates'),
    ],
)
def test_templates_of_the_user(tmp_path, text, message):
    path = tmp_path / 'mine.yaml'
    path.write_text(text)
    if not message:
        assert templates.load('x', 'en', str(path)).labels == {'a': 'b'}
        return
    with pytest.raises(UserError, match=message):
        templates.load('x', 'en', str(path))


@pytest.mark.parametrize(
    ('text', 'first', 'scores', 'chosen'),
    [
        ('', {}, [-3.0, -1.0, -2.0], 'no'),
        ('yes', {' NO': -0.1, 'yes': -2.0}, [], 'no'),  # Probabilities are before the text.
        ('yes', {'the': -0.1}, [], 'yes'),
        ('maybe', {}, [-1.0, -1.0, -2.0], 'maybe'),  # Equals decide nothing.
        ('Maybe. no', {}, [], 'maybe'),
        ('I say no', {}, [], 'no'),
        ('yes or no', {}, [], 'yes'),
        ('I do', {}, [], ''),
    ],
)
def test_how_a_label_is_chosen(text, first, scores, chosen):
    assert engines.choose(text, first, scores, ('yes', 'no', 'maybe')) == chosen


def test_a_text_is_the_first_paragraph():
    assert engines.choose(' Ein\nTitel \n\nSatz: x', {}, [], ()) == 'Ein Titel'


def call(root, address, workdir, *flags):
    return prompt.main(['prompt', address, f'--root={root}', f'--workdir={workdir}', *flags])


SWEEP = ('--task=sib200', '--languages=de', '--shots=0+1', '--buckets=3')


@pytest.mark.parametrize('form', ['', 'chat+'])
def test_a_sweep_of_a_server_that_stops_half_way(root, tmp_path, monkeypatch, form, capsys):
    monkeypatch.setenv(engines.KEY, 'secret')
    flags = (*SWEEP, f'--cache={tmp_path / "kept"}')
    server = Answers(limit=20)
    with partners.serving(server) as url:
        address, workdir = f'{form}{url}/v1#tiny', tmp_path / 'swept'
        with pytest.raises(UserError, match=r'gave no answer in 2 tries: HTTP 503: no room'):
            call(root, address, workdir, *flags)
        done = len((workdir / 'results.jsonl').read_text().splitlines())
        server.limit = math.inf
        call(root, address, workdir, *flags)
    # Seven test examples, without shots and with each of three buckets: nothing is asked twice.
    assert done >= 2 and len(server.asked) == len({*server.asked}) == 28
    assert server.keys == {'Bearer secret'}
    sweep = Sweep(workdir)
    assert [(r.shots, r.bucket, r.method, r.start, r.score) for r in sweep.rows] == [
        (0, None, 'zero_shot', 'none', 100.0),
        *((1, bucket, 'prompt', 'none', 100.0) for bucket in range(3)),
    ]
    assert sweep.predicted(sweep.rows[2]).tolist() == sweep.gold('de').tolist()
    assert 'sib200 de K=1: 100.00, 3 of 3 rows' in capsys.readouterr().out
    shots = [text for text in server.asked if text.count('\n\n') > 1]
    assert len(shots) == 21 and all(text.count('Topic: ') == 7 for text in shots)
    other = json.loads((workdir / 'config.json').read_text())['config']['prompt']
    assert other['templates']['de']['example'] == 'Sentence: $inputs\nTopic:'
    with pytest.raises(UserError, match='prompt'):
        call(root, f'{form}{url}/v1#other', workdir, *flags)


@pytest.mark.parametrize(
    ('answer', 'message'),
    [
        ({'choices': []}, 'gave 0 answers to 7 prompts|gave 0 answers to 1 prompts'),
        ({'choices': [{'text': 'a', 'logprobs': {'top_logprobs': [3]}}]}, 'in another form'),
        ({'other': 1}, 'gave an unexpected answer'),
        ([1], 'gave an unexpected answer'),
    ],
)
def test_a_server_that_lies_is_named(root, tmp_path, answer, message):
    def lie(request):
        count = len(json.loads(request.body)['prompt'])
        choices = answer.get('choices') if isinstance(answer, dict) else None
        made = [{**choices[0], 'index': i} for i in range(count)] if choices else None
        request.send({'choices': made} if made else answer)

    with partners.serving(lie) as url, pytest.raises(UserError, match=message):
        call(root, f'{url}#tiny', tmp_path / 'w', *SWEEP, f'--cache={tmp_path / "kept"}')


@pytest.mark.parametrize('name', partners.SERVERS)
def test_a_hostile_server_gets_one_line(name, monkeypatch):
    request = json.dumps(['Was?', ['ja'], 4])
    with partners.serving(partners.SERVERS[name]) as url, partners.one_line(20):
        server = engines.Server(url, 'm', timeout=0.2)
        engines.ask(Job(server, 'de', 'de'), [engines.Request(*json.loads(request))])


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        (('--task=xnly', '--languages=de'), "unknown task of labels 'xnly'; nearest: xnli"),
        (('--task=sib200',), '--languages is missing'),
        ((*SWEEP[:2], '--shots=3'), "unknown number of shots of sib200 '3'; .*1, 2, 4"),
        ((*SWEEP[:2], '--shots=x'), '--shots=x is not numbers'),
        ((*SWEEP, '--template_lang=own'), "unknown language of templates in sib200.yaml 'de'"),
        (('--task=mtg_tg_de_de', '--shots=1+2'), 'is one number'),
        (('--task=mtg_tg_de_dx',), 'unknown'),
    ],
)
def test_slips_are_found_before_anything_is_asked(root, tmp_path, flags, message):
    with pytest.raises(UserError, match=message):
        call(root, 'http://localhost:1/v1#m', tmp_path / 'w', *flags)


def test_an_address_needs_a_model(root, tmp_path):
    with pytest.raises(UserError, match=r'names no model; .*http://localhost:1/v1#qwen3'):
        call(root, 'http://localhost:1/v1', tmp_path / 'w', *SWEEP)


def test_answers_of_texts_are_scored(root, tmp_path):
    server, flags = Answers(), (f'--cache={tmp_path / "kept"}', '--seed=3')
    with partners.serving(server) as url:
        call(root, f'{url}/v1#tiny', tmp_path / 'w', '--task=mtg_tg_en_de', '--shots=2', *flags)
    assert all(text.count('Title: ') == 2 and 'in German' in text for text in server.asked)
    run = run_results.read_run(tmp_path / 'w')
    (result,) = (result for of in run.evaluations.values() for result in of.values())
    assert result.num_examples == 5 and 'rouge_l' in result.scores
    lines = (result.folder / 'predictions.jsonl').read_text().splitlines()
    assert [json.loads(line)['prediction'] for line in lines] == ['Der Titel'] * 5
    assert len(server.asked) == 5


def write_language_model(folder: pathlib.Path) -> str:
    """The workdir of a run of 0 steps of a GPT-2 with fresh parameters."""
    spec = tokenizer_files.write(folder / 'gpt2', 'gpt2')
    tokenizer = tokenizers.load(spec, '')
    sizes = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_layers=2, vocab_size=0)
    config = {
        'seed': 0,
        'data': {'root': '', 'vocabulary': spec, 'sample': False},
        'model': {'family': 'gpt2', 'size': 'sample', 'max_positions': 1024, **sizes},
        'init_from': '', 'lora': {'rank': 0}, 'objective': {'name': 'language_model'},
        'stages': {'stage1': {}},
        'evals': {'test': {'every': 0, 'tasks': [], 'lengths': {'inputs': 480, 'targets': 32},
                           'decoding': {}}},
    }  # fmt: skip
    workdir = folder / 'run'
    workdir.mkdir()
    about = {'config': config, 'tasks': {}, 'vocabulary': tokenizer.manifest()}
    (workdir / 'config.json').write_text(json.dumps(about))
    tokenizers.copy_files(spec, '', workdir)
    model = runs.build_model(config_lib.read_config(str(workdir)).model, tokenizer.vocab_size)
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    objective = objectives.build('language_model')
    params = train_step.init_params(model, objective, mesh, jax.random.key(1))
    params = jax.tree.map(lambda x: 20 * x if x.ndim > 1 else x, jax.device_get(params))
    checkpoints.save_params(str(workdir), 0, params)
    return str(workdir)


@pytest.mark.filterwarnings('ignore:.* were longer than')
def test_a_model_of_random_weights(root, tmp_path):
    spec = write_language_model(tmp_path)
    flags = ('--task=sib200', '--languages=de', '--shots=0', f'--cache={tmp_path / "kept"}')
    call(root, spec, tmp_path / 'w', *flags)
    (row,) = Sweep(tmp_path / 'w').rows
    assert (row.shots, row.method, row.status) == (0, 'zero_shot', 'done')
    # The label that is chosen has the highest log-probability behind the prompt.
    model = predict.load(spec, batch_size=8)
    template = templates.load('sib200', 'en')
    text = {'inputs_pretokenized': f'Satz 0 über {TOPICS[0]}.', 'targets_pretokenized': ''}
    examples = [Example(template.prompt([], text, 'de'))] * 7
    labels = Sweep(tmp_path / 'w').test_set('de').labels
    scores = model.log_probabilities(examples, labels)
    first = Sweep(tmp_path / 'w').zero_shot('de', 'none')[0]
    assert first == int(np.argmax(scores))
    generator = engines.Generator(spec)
    request = engines.Request('Satz', (), 4)
    (answer,) = engines.ask(Job(generator, 'de', 'de'), [request])
    (text,) = model.generate(['Satz'], max_length=4)
    assert answer == engines.choose(text, {}, [], ())


def test_rows_of_tags_are_read_by_their_places():
    data = types.SimpleNamespace(_is_tagging=True, labels=['B-LOC', 'B-PER', 'O'])
    asked = {'targets': np.zeros(3), **WORDS}
    read = sweeps.Language.read_answer
    for answer, tags in (
        ('Musa/B-PER yana/O Kano/B-LOC more/O', [1, 2, 0]),
        ('Musa/B-PER', [1, 2, 2]),
        ('Musa/PERSON yana', [2, 2, 2]),
    ):
        assert read(data, None, asked, answer) == tags


@pytest.mark.parametrize(
    ('benchmark', 'number', 'count', 'flag'),
    [('fewshot', '12', 1, '--task=udpos'), ('mtg', '14', 12, '--task=mtg_sg_en_en')],
)
def test_a_prompted_system_is_a_row_of_a_paper_s_table(benchmark, number, count, flag):
    recipe = RECIPES[benchmark]
    (table,) = (t for t in recipe.tables if t.number == number and t.name.startswith('table'))
    (system,) = added.parse(['LLM=prompt:http://localhost:8000/v1#qwen3'])
    made = added.experiments(recipe, table, system, 'sample')
    commands = [c for name, c in made.commands.items() if name.startswith('added-')]
    assert len(commands) == count and {c.program for c in commands} == {'prompt'}
    assert any(flag in c.flags for c in commands)
    assert all(c.flags[0] == 'http://localhost:8000/v1#qwen3' for c in commands)
