"""A tiny prepared data root of messages and replies, and configs for it; see tiny.py."""

import pathlib
import random

import jax
import ml_collections
import prepared_files

from xlbench import config as config_lib, runs
from xlbench.configs import mrs_retriever
from xlbench.data import prepared, tokenizers
from xlbench.parallel import partitioning
from xlbench.training import checkpoints, objectives, train_step

LANGS = ('en', 'de')
TASKS = tuple(f'mrs_retrieval_{lang}_{lang}' for lang in LANGS)
MIXTURE = 'mrs_multi_retrieval'
SIZES = {'train': 150, 'validation': 37, 'test': 41}
LENGTHS = {'inputs': 24, 'targets': 16}
_TOPICS = {
    'en': 'tea rain music bread winter garden river cheese',
    'de': 'Tee Regen Musik Brot Winter Garten Wasser Wurst',
}
_MESSAGES = {
    'en': ('do you like {}', 'what about {} today', 'I talked to my friend of {}'),
    'de': ('magst du {}', 'wie ist es heute mit {}', 'ich sprach mit meinem Freund von {}'),
}
_REPLIES = {
    'en': ('I love {}', 'no {} for me', 'who does not know {}'),
    'de': ('ich liebe {}', 'kein {} für mich', 'wer kennt {} nicht'),
}


def responses(lang: str) -> list[str]:
    """Every reply that there is."""
    return [form.format(word) for word in _TOPICS[lang].split() for form in _REPLIES[lang]]


def pairs(task: str, split: str) -> list[tuple[str, str]]:
    """(message, reply): about the same topic, in the same mood, so that it can be learnt."""
    lang = task.rpartition('_')[2]
    if split == 'responses':
        return [(text, text) for text in responses(lang)]
    rng = random.Random(f'{task} {split}')
    rows = []
    for _ in range(SIZES[split]):
        word, mood = rng.choice(_TOPICS[lang].split()), rng.randrange(3)
        rows.append((_MESSAGES[lang][mood].format(word), _REPLIES[lang][mood].format(word)))
    return rows


@prepared_files.by_no_code()
def write_root(root: pathlib.Path) -> None:
    """Trains a vocabulary, and writes every task and the mixture as xlbench.prepare would."""
    texts = [text for task in TASKS for pair in pairs(task, 'train') for text in pair]
    tokenizer = prepared_files.train_vocabulary(root, texts)
    for split in (*SIZES, 'responses'):
        for task in TASKS:
            _write_task(root, tokenizer, task, split)
        prepared.write_mixture(str(root), 'sample', MIXTURE, split, dict.fromkeys(TASKS, 1.0))


def _write_task(root: pathlib.Path, tokenizer: tokenizers.Tokenizer, task: str, split: str) -> None:
    texts, is_set = pairs(task, split), split == 'responses'
    metric = {'metric': 'xlbench.metrics.mrs:MrsRouge', 'kwargs': {'lang': task[-2:]}}
    fields = [
        {
            'message': message, 'reply': reply, 'lm_score': '-1.0' if is_set else '',
            'cluster': str(number) if is_set else '', 'display': '',
        }
        for number, (message, reply) in enumerate(texts)
    ]  # fmt: skip
    about = {'view': 'retrieval', 'metrics': [metric]}
    prepared_files.write_pairs(
        root, tokenizer, task, split, texts, about=about, shard_examples=60, fields=fields
    )


def tiny_config(root: pathlib.Path, **overrides) -> ml_collections.ConfigDict:
    """configs/mrs_retriever.py:sample on the tiny root, as `tiny.tiny_config`."""
    c = mrs_retriever.get_config('sample')
    prepared_files.make_encoder_tiny(c, root, LENGTHS, 40, tasks=TASKS, candidates=20)
    c.batches.one_task = True
    c.stages.stage1.mixture = MIXTURE
    c.evals.dev.responses = ''
    c.best.score = 'dev/mean/p_at_1'
    c.checkpoints.every = 8
    return prepared_files.changed(c, overrides)


def write_run(workdir: pathlib.Path, config: ml_collections.ConfigDict) -> None:
    """What a run of this config leaves behind, without any training."""
    tokenizer = tokenizers.load('sample', config.data.root)
    tasks = {
        task: {'source_lang': lang, 'target_lang': lang, 'trained': True}
        for task, lang in zip(TASKS, LANGS, strict=True)
    }
    about = {'tasks': tasks, 'vocabulary': tokenizer.manifest()}
    config_lib.claim_workdir(str(workdir), config, about)
    model = runs.build_model(config.model, tokenizer.vocab_size)
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    objective = objectives.build(**config.objective)
    params = train_step.init_params(model, objective, mesh, jax.random.key(0))
    checkpoints.save_params(str(workdir), 0, jax.device_get(params))
