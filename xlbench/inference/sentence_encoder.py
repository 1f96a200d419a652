"""Texts -> vectors of any encoder: a retriever of ours, or a public BERT or XLM-R."""

import functools
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from xlbench import models
from xlbench.data import features, tokenizers
from xlbench.huggingface import checkpoint as hf_checkpoint, hub
from xlbench.inference import answering, loading
from xlbench.parallel import partitioning
from xlbench.retrieval.text_encoder import TextEncoder
from xlbench.system.errors import UserError

MAX_LENGTH = 128  # Tokens of a text, its end included; as Sentence-BERT's models have it.


class SentenceEncoder:
    """An encoder of texts.

    Args:
      spec: the workdir of a run whose objective is retrieval, of which it takes the messages' side;
        or a BERT, RoBERTa or XLM-R as a folder in the form of Hugging Face or a hub name, whose
        vectors are means of the tokens' (arXiv:1908.10084, section 3).
      batch_size: texts that are encoded together.

    Raises:
      UserError: it is not an encoder.
    """

    def __init__(self, spec: str, batch_size: int = 64):
        mesh = partitioning.make_mesh()
        folder = pathlib.Path(os.path.expanduser(spec))
        if (folder / 'checkpoints').is_dir():
            opened = loading.open_model(spec, mesh, {})
            if opened.objective.view != 'retrieval':
                raise UserError(
                    f'{spec} is a run for {opened.objective.view}, which has no vectors of texts; '
                    'name one for retrieval, or a public encoder'
                )
            model, params, self._tokenizer = opened.model, opened.params, opened.tokenizer
        else:
            place = str(hub.local_folder(spec))
            fields = dict(shared=True, pooling='mean', projection_dim=0, normalize=False)
            source = hf_checkpoint.open(place, fields)
            self._tokenizer = tokenizers.load(place, '')
            model, params = models.build(**source.model), hf_checkpoint.load_params(source)
        size = model.config.vocab_size
        self._params = params
        self._encode = TextEncoder(
            model,
            mesh,
            'left',
            batch_size=batch_size,
            max_length=min(MAX_LENGTH, loading.max_inputs(model) or MAX_LENGTH),
            conventions=features.Conventions.of_tokenizer(self._tokenizer, size),
        )

    @functools.cached_property
    def digest(self) -> str:
        """The hash of the encoder, see answering.digest_of."""
        return answering.digest_of(self._params, self._tokenizer)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, [len(texts), dimensions] float32."""
        return self._encode(self._params, self._tokenizer.encode_inputs(texts))
