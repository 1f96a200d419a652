"""Triples of who does what: taken from tagged sentences, and written as OpenIE prints them.

CoreNLP's OpenIE prints them so with -format reverb, and `readers.read_triples` reads the lines
again. Column 1, where OpenIE has the name of the file, says who made a line, so that a file always
tells which extractor it is from.

`extract` is no OpenIE: it knows no clauses. By the universal tags of parts of speech (UPOS),

  relation  is a run of verbs, auxiliaries, particles and adverbs that begins with no adverb and
            ends with a verb, with the adposition behind it if a noun phrase follows that:
            'have to look for'
  subject   is the noun phrase before it, unless a mark, a conjunction or another verb stands
            between; behind a conjunction it is that of the verb before
  object    is the noun phrase behind it, if nothing but determiners and the like stands between

A noun phrase is a pronoun, or a run of determiners, adjectives, numbers and nouns that ends with a
noun. In a question the auxiliary stands alone ('Can you send it?': you, send, it). A relation
without a subject, as of 'Send it!', gives none. Where the subject is I or we, the name of the
speaker stands in its place (as in Chen and Yang, arXiv:2104.08400), so that it is never masked.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Span = tuple[int, int]  # The first token, and the one behind the last.
# In the first column of our own files: of those of a tagger, and of the sample corpora.
BY_TAGGER, OF_SAMPLE = 'xlbench.triples, tagger ', 'the grammars of the sample corpus'

_TOKEN = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
_END = re.compile(r'(?<=[.!?…])\s+')


class Triple(NamedTuple):
    """One action in a sentence: where its three phrases stand; an empty object is (0, 0).

    Attributes:
      subject, relation, object: the phrases.
      name: what is written in place of the subject; '' for its own words.
    """

    subject: Span
    relation: Span
    object: Span
    name: str = ''


def extract(tokens: Sequence[str], tags: Sequence[str], speaker: str = '') -> list[Triple]:
    """Returns the triples of a sentence; see above.

    Args:
      tokens: of the sentence.
      tags: their universal tags of parts of speech.
      speaker: who says it, '' if nobody knows.

    Example: ['I', 'will', 'send', 'the', 'file'], ['PRON', 'AUX', 'VERB', 'DET', 'NOUN'], 'Ben' ->
      [Triple((0, 1), (1, 3), (3, 5), 'Ben')]
    """
    triples: list[Triple] = []
    for relation in _relations(tags):
        subject = _subject(tags, relation[0])
        if subject is None and triples and _joins(tags, triples[-1].relation[1], relation[0]):
            subject = triples[-1].subject
        if subject is None:
            continue
        relation, target = _with_object(tags, relation)
        first = ' '.join(tokens[slice(*subject)]).lower() in ('i', 'we')
        triples.append(Triple(subject, relation, target, speaker if first else ''))
    return triples


_VERBAL = ('VERB', 'AUX', 'PART', 'ADV')
_NOUNS = ('NOUN', 'PROPN')
_BEFORE_NOUNS = ('DET', 'ADJ', 'NUM', *_NOUNS)


def _relations(tags: Sequence[str]) -> Iterator[Span]:
    """Yields the runs of verbs and what belongs to them, each with a verb at its end."""
    at = 0
    while at < len(tags):
        end = at
        while end < len(tags) and tags[end] in _VERBAL:
            end += 1
        run = tags[at:end]
        if 'VERB' in run:
            last = max(n for n, tag in enumerate(run) if tag == 'VERB')
            first = next(n for n, tag in enumerate(run) if tag != 'ADV')
            yield at + first, at + last + 1
        at = max(end, at + 1)


def _subject(tags: Sequence[str], end: int) -> Span | None:
    """Returns the noun phrase that ends before a place, with adverbs between."""
    while end and tags[end - 1] == 'ADV':
        end -= 1
    if not end or tags[end - 1] not in ('PRON', *_NOUNS):
        return None
    start = end - 1
    if tags[start] != 'PRON':
        while start and tags[start - 1] in _BEFORE_NOUNS:
            start -= 1
    return start, end


def _joins(tags: Sequence[str], start: int, end: int) -> bool:
    """Returns whether a conjunction leads to a verb from the one before, across its object only."""
    between = [tag for tag in tags[start:end] if tag != 'ADV']
    return between[-1:] == ['CCONJ'] and not {'PUNCT', 'SCONJ'} & {*between}


def _with_object(tags: Sequence[str], relation: Span) -> tuple[Span, Span]:
    """Returns the relation with its adposition, if it has one, and the noun phrase behind it."""
    start, end = relation
    if target := _noun_phrase(tags, end):
        return relation, target
    if end < len(tags) and tags[end] == 'ADP' and (target := _noun_phrase(tags, end + 1)):
        return (start, end + 1), target
    return relation, (0, 0)


def _noun_phrase(tags: Sequence[str], start: int) -> Span | None:
    """Returns the noun phrase that begins at a place."""
    if start < len(tags) and tags[start] == 'PRON':
        return start, start + 1
    end = start
    while end < len(tags) and tags[end] in _BEFORE_NOUNS:
        end += 1
    while end > start and tags[end - 1] not in _NOUNS:
        end -= 1
    return (start, end) if end > start else None


def sentences(text: str) -> list[list[str]]:
    """Returns the sentences of an utterance, each as its tokens.

    Example: "I can't. Ask Ben!" -> [['I', "can't", '.'], ['Ask', 'Ben', '!']]
    """
    return [tokens for part in _END.split(text) if (tokens := _TOKEN.findall(part))]


def line(
    maker: str, number: int, tokens: Sequence[str], tags: Sequence[str], triple: Triple
) -> str:
    """Returns a line of a file of triples, with its line end.

    Args:
      maker: of the triples.
      number: of the sentence, from 0.
      tokens: of the sentence.
      tags: of the tokens, '_' where they are not known.
      triple: an action in it. In place of lemmas stand its words in lower case.
    """
    spans = triple.subject, triple.relation, triple.object
    phrases = [' '.join(tokens[start:end]) for start, end in spans]
    phrases[0] = triple.name or phrases[0]
    places = [str(place) for span in spans for place in span]
    lemmas = [phrase.lower() for phrase in phrases]
    columns = [maker, str(number), *phrases, *places, '1.000', ' '.join(tokens), ' '.join(tags)]
    return '\t'.join([*columns, *lemmas]) + '\n'


def find(phrase: str, tokens: Sequence[str], start: int = 0) -> Span | None:
    """Returns where a phrase stands in a sentence, from a token on, whatever its capitals."""
    words = [word.lower() for word in _TOKEN.findall(phrase)]
    lower = [token.lower() for token in tokens]
    for first in range(start, len(tokens) - len(words) + 1):
        if lower[first : first + len(words)] == words:
            return first, first + len(words)
    return None
