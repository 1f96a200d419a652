"""A trained retriever that suggests replies; `predict.load` returns it in Python.

A message and each response of a set become vectors, and a response's score is

  scale * message . response + lm_weight * log-likelihood of the response

(arXiv:2106.02017, section 4.1; microsoft/MRS). Of the responses with the highest scores, it
suggests the first of each cluster, because two replies that say the same are no choice; or the set
with the highest expected score, if the run was evaluated in this way (retrieval/response_set.py).
"""

import collections
import hashlib
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jax.sharding import Mesh

from xlbench import config as config_lib, runs
from xlbench.evaluators.generation import Example
from xlbench.inference.answering import (
    Answerer,
    Languages,
    LoadedModel,
    Suggestion,
    check_list,
    chunks,
)
from xlbench.retrieval import exact_search
from xlbench.retrieval.response_set import Choose, ResponseSet, chooser
from xlbench.retrieval.text_encoder import TextEncoder
from xlbench.system import files, locks, untrusted
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.system.files import Block

NUM_SUGGESTIONS = 3
# Responses that suggestions are chosen from; more where that gives too few clusters.
TOP_K = 15
# A response set, where it is searched, how suggestions are chosen, and the number of its clusters.
_Searchable = tuple[ResponseSet, exact_search.Index, Choose, int]


class Retriever(Answerer[Example, list[Suggestion]]):
    """A dual encoder with its vocabulary and response sets.

    The response set of a language is the one that the run was evaluated with, or would be if that
    language were evaluated too: it is prepared if it is missing, encoded when it is first needed,
    and its vectors are kept in WORKDIR/responses for the next time.

    A file of `responses` to all messages, in the form of ResponseSet.of_file, takes the place of
    the run's; no language is asked for then. `lm_weight` is that of a response's log-likelihood, by
    default the final evaluation's.
    """

    def __init__(
        self,
        name: str,
        opened: LoadedModel,
        mesh: Mesh,
        *,
        responses: str = '',
        lm_weight: float | None = None,
        **sizes: int,
    ):
        super().__init__(name, opened, mesh, **sizes)
        blocks = opened.evals
        final: Block = blocks[0] if blocks else {}
        self._file = responses
        self._top_k = final.get('top_k', TOP_K)
        # {language: (task, split)}: those of the final evaluation, and of whatever else is known.
        split = next((block['responses'] for block in blocks if block.get('responses')), '')
        tasks = [task for block in blocks for task in block['tasks']] + list(opened.tasks)
        self._places: dict[str, tuple[str, str]] = {}
        for task in tasks if split else ():
            if lang := opened.tasks.get(task, {}).get('target_lang'):
                self._places.setdefault(lang, (task, split))
        langs = () if responses else tuple(self._places)
        why = f'it has response sets in {", ".join(langs)}'
        self.languages = Languages(langs, langs[0] if len(langs) == 1 else None, why)
        lengths = {'left': self.max_input_length, 'right': opened.lengths['targets']}
        size, known = self.batch_size, self._conventions
        self._left, self._right = (
            TextEncoder(opened.model, mesh, s, batch_size=size, max_length=most, conventions=known)
            for s, most in lengths.items()
        )
        self._lm_weight = final.get('lm_weight', 0.0) if lm_weight is None else lm_weight
        self._consensus = final.get('consensus', 0.0)
        self._sets: dict[str | None, _Searchable] = {}

    def suggest(
        self, texts: Sequence[str], lang: str | None = None, count: int = NUM_SUGGESTIONS
    ) -> list[list[Suggestion]]:
        """The `count` best replies to each message, best first; none to an empty one.

        There are fewer where the response set has no more clusters. `lang` is the ISO code of
        messages and replies; it has to be given where there are several response sets.

        Raises:
          UserError: a language that is missing or unknown, a count that cannot be.
        """
        check_list(texts, 'suggest')
        self.ready(lang)
        return self._collect(self.stream((Example(text, None, lang) for text in texts), count))

    def stream(
        self, examples: Iterable[Example | None], count: int = NUM_SUGGESTIONS
    ) -> Iterator[list[Suggestion]]:
        """The `count` replies to each example, in their order, before later ones are read.

        Examples are taken in chunks of up to CHUNK_BATCHES batches; for None see
        `Answerer._in_order`.
        """
        if count < 1:
            raise UserError(f'{count} suggestions are asked for; 1 or more are allowed')
        for chunk in chunks(examples, self.batch_size):
            yield from self._answer(chunk or [], count)

    def mark(self, source_lang: str | None, target_lang: str | None) -> str | None:
        """The language whose response set answers; None for the one of the file.

        Raises:
          UserError: it is missing, or there is no response set of it.
        """
        del source_lang  # A reply has its message's language.
        if self._file:
            return None
        if not self._places:
            raise UserError(
                f'{self.name} was evaluated without a response set; name one with '
                '--responses=FILE, or responses= of predict.load'
            )
        return self.languages.choose(self.name, target_lang)

    def ready(self, lang: str | None) -> None:
        """Has the response set of a language encoded, so that the first message need not wait."""
        self._of_lang(self.mark(None, lang))

    def relevance(self, messages: Sequence[str], replies: Sequence[str]) -> np.ndarray:
        """scale * message . reply [n] for n messages, each with the reply at its place."""
        sides = []
        for encoder, texts in ((self._left, messages), (self._right, replies)):
            places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            vectors = encoder(self._params, self._tokenizer.encode_inputs(list(places)))
            sides.append(vectors[[places[text] for text in texts]])
        return self._opened.objective.scale * np.einsum('nd,nd->n', *sides)

    # --------------------------------------------------------------------------- finding responses

    def _of_lang(self, lang: str | None) -> _Searchable:
        """The response set that answers in a language; of the file for None.

        Raises:
          UserError: it cannot be read, or prepared.
        """
        if lang not in self._sets:
            if lang is None:
                responses = ResponseSet.of_file(self._file, self._tokenizer)
            else:
                responses = self._of_run(*self._places[lang])
            vectors = self._vectors(responses.ids, self._file or f'{lang}')
            index = exact_search.index(vectors, self._lm_weight * responses.lm_scores, self._mesh)
            choose = chooser(responses, lang, self._consensus)
            self._sets[lang] = responses, index, choose, len(set(responses.clusters))
        return self._sets[lang]

    def _of_run(self, task: str, split: str) -> ResponseSet:
        """A response set that the workdir has a copy of, else as it is prepared, or made now."""
        place = runs.response_set_path('', task, split)
        if path := untrusted.file(self._opened.workdir, place):
            return ResponseSet.of_copy(path, self._tokenizer)
        try:
            responses = config_lib.open_task(task, split, like=str(self._opened.workdir))
        except SystemExit:
            raise UserError(
                f'the response set of {self.name}, {task}/{split}, cannot be prepared (the '
                'reason is above); name another one with --responses=FILE, or responses= of '
                'predict.load'
            ) from None
        if responses.manifest['vocabulary']['sha256'] != self._tokenizer.sha256:
            raise UserError(
                f'{task}/{split} was prepared with another vocabulary than {self.name} was '
                'trained with; run xlbench.prepare again with --force'
            )
        return ResponseSet.of_prepared(responses)

    def _vectors(self, ids: Sequence[np.ndarray], name: str) -> np.ndarray:
        """The vectors [n, dim] of responses, read from the workdir or encoded and kept there."""
        folder, config = self._opened.workdir / 'responses', self._model.config
        # All that the vectors depend on: model, parameters, texts as ids, their length.
        digest = hashlib.sha256(f'{self.digest} {config!r}'.encode())
        digest.update(f'{self._opened.lengths["targets"]} {len(ids)} '.encode())
        digest.update(np.array([len(row) for row in ids], np.int64).tobytes())
        digest.update(np.concatenate(ids).astype(np.int32).tobytes())
        path = folder / f'{digest.hexdigest()[:32]}.npy'
        vectors = _read(path, len(ids), config.projection_dim or config.emb_dim)
        if vectors is not None:
            return vectors
        say(f'{self.name}: encoding {len(ids):,} responses ({name}), kept in {folder}')
        vectors = self._right(self._params, ids)
        try:  # Whole or not at all; where nothing can be written they are made anew.
            with locks.file(path, wait=say), files.replacing(path) as file:
                np.save(file, vectors.astype('<f4'), allow_pickle=False)
        except (OSError, UserError) as error:
            why = getattr(error, 'strerror', None) or error
            say(f'{path} cannot be written ({why}); it is not kept')
        return vectors

    def _answer(self, chunk: Sequence[Example], count: int) -> list[list[Suggestion]]:
        answers: list[list[Suggestion]] = [[] for _ in chunk]
        places = [i for i, example in enumerate(chunk) if example.text.strip()]
        if not places:
            return answers
        ids = self._tokenizer.encode_inputs([chunk[i].text for i in places])
        self._count_cut(map(len, ids))
        vectors = self._left(self._params, ids) * np.float32(self._opened.objective.scale)
        rows = collections.defaultdict(list)
        for row, place in enumerate(places):
            rows[self.mark(*chunk[place][1:])].append(row)
        for lang, of_lang in rows.items():
            suggested = self._search(vectors[of_lang], self._of_lang(lang), count)
            for row, suggestions in zip(of_lang, suggested, strict=True):
                answers[places[row]] = suggestions
        return answers

    def _search(
        self, messages: np.ndarray, searchable: _Searchable, count: int
    ) -> list[list[Suggestion]]:
        """Suggestions for vectors [m, dim], from as many of the best responses as are needed."""
        responses, index, choose, num_clusters = searchable
        count = min(count, num_clusters)
        answers: list[list[Suggestion]] = [[]] * len(messages)
        left = np.arange(len(messages))
        k = max(self._top_k, count)
        while True:
            best = exact_search.top_k(messages[left], index, min(k, index.count))
            few = []
            for row, values, ids in zip(left, best.values, best.ids.tolist(), strict=True):
                scores = dict(zip(ids, values.tolist(), strict=True))
                ids = choose(ids, values, count)
                answers[row] = [Suggestion(responses.display[i], scores[i]) for i in ids]
                if len(ids) < count:
                    few.append(row)
            if not few:
                return answers
            left, k = np.array(few), 4 * k  # Those that see too few clusters look further.


def _read(path: pathlib.Path, count: int, dim: int) -> np.ndarray | None:
    """Vectors [count, dim] float32 that were kept; None without such a file, or for another one."""
    try:
        # The header decides how much is read, so it is checked before.
        array = np.load(path, mmap_mode='r', allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if array.dtype != np.dtype('<f4') or array.shape != (count, dim):
        return None
    array = np.array(array, np.float32)
    return array if np.isfinite(array).all() else None
