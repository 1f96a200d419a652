"""Rules on the tokens of a text: changes of the logits before a token is chosen.

Their order is that of transformers: diversity, repetition, n-grams, banned tokens, least length,
forced first and last token. The first four depend on what has been said and change few entries;
the others are functions of a token's id and are applied while the logits are read.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding import top
from xlbench.settings.decoding import Options

_NEVER = -jnp.inf


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules of one decoding."""

    options: Options  # which rules there are
    eos_id: int  # the end of a text
    # The first token of each text, [examples], and of rules that `of` gives [rows]; None: any.
    forced_first: jax.Array | None = None

    def of(self, examples: jax.Array, num_texts: int) -> 'Rules':
        """The rules for rows of these examples [n], with the texts of one example side by side."""
        if self.forced_first is None:
            return self
        return dataclasses.replace(
            self, forced_first=jnp.repeat(jnp.asarray(self.forced_first)[examples], num_texts)
        )

    def by_history(
        self,
        logits: jax.Array,  # [rows, vocab]
        zero: jax.Array,  # [rows], the logit that counts as 0: log-probabilities are logits - zero
        tokens: jax.Array,  # [rows, 1 + max_length], the start token first
        position: jax.Array,  # [], new tokens so far; tokens[:, :position + 1] are there
    ) -> jax.Array:  # [rows, vocab]
        """The logits after the rules that look at the text; the same array if there are none."""
        options = self.options
        if options.repetition_penalty != 1.0:
            logits = _penalise(logits, zero, tokens, position, options.repetition_penalty)
        if options.no_repeat_ngram:
            logits = _ban_ngrams(logits, tokens, position, options.no_repeat_ngram)
        for sequence in options.banned:
            *before, last = [sequence] if isinstance(sequence, int) else sequence
            logits = logits.at[:, last].min(_ends_with(tokens, position, before))
        return logits

    def by_id(self, zero: jax.Array, position: jax.Array) -> top.Value:
        """The function of logits and token ids for the other rules, with arguments of `by_history`.

        A forced token is given the logit `zero`.
        """
        options = self.options

        def value(logits: jax.Array, ids: jax.Array) -> jax.Array:
            def each(rows):  # [rows] -> [rows, 1, ..]
                return rows.reshape(-1, *[1] * (logits.ndim - 1))

            if options.min_length:
                early = (ids == self.eos_id) & (position < options.min_length)
                # A sum, because XLA:CPU would write down what is chosen.
                logits = logits + jnp.where(early, _NEVER, 0.0)
            if self.forced_first is not None:
                forced = jnp.where(ids == each(self.forced_first), each(zero), _NEVER)
                logits = jnp.where(position == 0, forced, logits)
            if options.forced_last:
                forced = jnp.where(ids == self.eos_id, each(zero), _NEVER)
                logits = jnp.where(position == options.max_length - 1, forced, logits)
            return logits

        return value


def _penalise(logits, zero, tokens, position, penalty):
    # What is not there yet is read as the start token, which is penalised anyway.
    there = jnp.arange(tokens.shape[1]) <= position
    ids = jnp.where(there, tokens, tokens[:, :1])
    scores = top.at(logits, ids) - zero[:, None]
    scores = jnp.where(scores < 0, scores * penalty, scores / penalty) + zero[:, None]
    return logits.at[jnp.arange(len(ids))[:, None], ids].set(scores)


def _ban_ngrams(logits, tokens, position, n):
    """Bans what would complete an n-gram that the text has."""
    length = tokens.shape[1]
    if n > length:
        return logits
    # tokens[:, i : i + n - 1] against the text's end; the token after them is banned.
    end = lax.dynamic_slice_in_dim(tokens, position - (n - 2), n - 1, axis=1)
    same = jnp.arange(length - n + 1)[None] + (n - 1) <= position
    for j in range(n - 1):
        same = same & (tokens[:, j : length - n + 1 + j] == end[:, j : j + 1])
    ids = tokens[:, n - 1 :]
    ban = jnp.where(same, _NEVER, jnp.inf)
    return logits.at[jnp.arange(len(ids))[:, None], ids].min(ban)


def _ends_with(tokens, position, before):
    """[rows], -inf where the new tokens end with `before`, else inf."""
    if not before:
        return _NEVER
    size = len(before)
    if size >= tokens.shape[1]:
        return jnp.inf
    end = lax.dynamic_slice_in_dim(tokens, position - size + 1, size, axis=1)
    same = jnp.all(end == jnp.array(before), axis=1) & (position >= size)
    return jnp.where(same, _NEVER, jnp.inf)
