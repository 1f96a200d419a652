"""A trained model without an encoder, which also scores texts token by token."""

from collections.abc import Callable, Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xlbench.data import features
from xlbench.inference.answering import Example, LoadedModel, check_list
from xlbench.inference.generator import Model
from xlbench.parallel import programs
from xlbench.parallel.length_batches import LengthBatches
from xlbench.system.errors import UserError
from xlbench.trees import Params

_PLACES = 16  # Places whose states are asked for are filled up to a multiple of it.

Program = Callable[[Params, Mapping[str, jax.Array]], jax.Array]


class LanguageModel(Model):
    """A model without an encoder, with its vocabulary; `load` makes it.

    Attributes:
      max_positions: tokens of a text, inputs and answers together.
    """

    def __init__(self, name: str, opened: LoadedModel, mesh: Mesh, **sizes: int):
        super().__init__(name, opened, mesh, **sizes)
        self.tokenizer = opened.tokenizer
        self.max_positions: int = opened.model.config.max_positions
        objective, model = opened.objective, opened.model
        losses = type(objective).token_losses
        self._token_losses: Program = programs.shared(losses, objective, model)
        self._states: Program = programs.shared(_states_at, model)
        whole = dict(batch_size=self.batch_size, max_length=self.max_positions)
        self._whole_texts = LengthBatches(mesh, **whole)

    def token_losses(
        self,
        texts: Sequence[str],
        answers: Sequence[str],
        *,
        target_lang: str | None = None,
        source_lang: str | None = None,
    ) -> list[np.ndarray]:
        """The loss of each token of each answer in nats, that of the end of text last.

        The perplexity of an answer is exp(mean of its losses). Its tokens are those of
        `tokenizer.encode(answer)`.

        Args:
          texts: that are given; each is read as by `generate`.
          answers: one for each text.
          target_lang, source_lang: ISO codes, as for `generate`.

        Raises:
          UserError: there are not as many answers as texts, or a language is missing or unknown.
        """
        for values in (texts, answers):
            check_list(values, 'token_losses')
        if len(texts) != len(answers):
            raise UserError(f'{len(answers)} answers to {len(texts)} texts; each text has one')
        end, before_answer = [self.tokenizer.eos_id], self.mark(source_lang, target_lang).target
        inputs = self._inputs([Example(text, source_lang, target_lang) for text in texts])
        ids = self.tokenizer.encode_batch(answers, target=True) if answers else []
        targets = [np.concatenate([before_answer, answer, end]).astype(np.int32) for answer in ids]
        pairs = zip(inputs, targets, strict=True)
        return self.losses_of_ids([{'inputs': x, 'targets': y} for x, y in pairs])

    def losses_of_ids(self, examples: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
        """The loss in nats of each of an example's `targets`, given its `inputs`; ids in both.

        Of either at most max_input_length ids count, and at most half of max_positions.
        """
        room, end = min(self.max_input_length, self.max_positions // 2), self.tokenizer.eos_id
        examples = [
            {'inputs': features.trim(x['inputs'], room, end), 'targets': x['targets'][:room]}
            for x in examples
        ]
        longest = {i: max(map(len, example.values())) for i, example in enumerate(examples)}
        begun = []
        for batch, rows, width in self.batches.cut(longest):
            width = min(width, room)
            arrays = self._arrays([examples[i] for i in batch], rows, width, width)
            begun.append((batch, width, self.batches.run(self._token_losses, self._params, arrays)))
        losses = [np.zeros(0)] * len(examples)
        for batch, width, nats in begun:
            for i, row in zip(batch, np.asarray(nats), strict=False):
                # A model that learns inputs, too, has their losses before those of the targets.
                losses[i] = row[-width:][: len(examples[i]['targets'])]
        return losses

    def states_of_ids(
        self, texts: Sequence[np.ndarray], places: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The states of the last layer at some places of each text, [places, emb_dim] float32.

        Texts are ids, each [max_positions or less]; places count tokens from 0.
        """
        begun = []
        for batch, rows, width in self._whole_texts.cut({i: len(x) for i, x in enumerate(texts)}):
            most = -(-max(len(places[i]) for i in batch) // _PLACES) * _PLACES
            sizes = {'tokens': width, 'segments': width, 'places': most}
            arrays = {name: np.zeros((rows, size), np.int32) for name, size in sizes.items()}
            for row, i in enumerate(batch):
                arrays['tokens'][row, : len(texts[i])] = texts[i]
                arrays['segments'][row, : len(texts[i])] = 1
                arrays['places'][row, : len(places[i])] = places[i]
            begun.append((batch, self._whole_texts.run(self._states, self._params, arrays)))
        states = [np.zeros((0, 0))] * len(texts)
        for batch, of_rows in begun:
            for i, of_row in zip(batch, np.asarray(of_rows, np.float32), strict=False):
                states[i] = of_row[: len(places[i])]
        return states


def _states_at(model: nn.Module, params: Params, batch: Mapping[str, jax.Array]) -> jax.Array:
    """The states [rows, places, emb_dim] at batch['places']."""
    apply: Callable[..., jax.Array] = model.apply
    states = apply({'params': params}, batch['tokens'], batch['segments'], method='states')
    return jnp.take_along_axis(states, batch['places'][..., None], axis=1)
