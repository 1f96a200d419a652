"""(Subject, relation, object) triples of tagged sentences, in the format of OpenIE.

CoreNLP's OpenIE prints the format with -format reverb, and `readers.read_triples` reads it. Column
1, where OpenIE has the name of the file, names the extractor.

`extract` is simpler than OpenIE and knows no clauses. By universal part-of-speech tags (UPOS),

  relation  is a run of verbs, auxiliaries, particles and adverbs that ends with a verb and does not
            begin with an adverb; an adposition before a noun phrase belongs to it: 'have to look
            for'
  subject   is the noun phrase before it, without punctuation, conjunction or verb between; after a
            conjunction, the subject of the verb before
  object    is the noun phrase directly after it

A noun phrase is a pronoun, or a run of determiners, adjectives, numbers and nouns that ends with a
noun. In a question the auxiliary is alone ('Can you send it?': you, send, it). A relation without a
subject ('Send it!') gives no triple. The speaker's name replaces the subjects I and we (as in Chen
and Yang, arXiv:2104.08400), so that it is never masked.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Span = tuple[int, int]  # The first token, and the one behind the last.
# The first columns of our own files, by a tagger and in the sample corpora.
BY_TAGGER, OF_SAMPLE = 'xlbench.triples, tagger ', 'the grammars of the sample corpus'

_TOKEN = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
_END = re.compile(r'(?<=[.!?…])\s+')


class Triple(NamedTuple):
    """The places of an action's three phrases in a sentence; an empty object is (0, 0)."""

    subject: Span
    relation: Span
    object: Span
    name: str = ''  # Is written instead of the subject's words.


def extract(tokens: Sequence[str], tags: Sequence[str], speaker: str = '') -> list[Triple]:
    """Extracts the triples of a sentence with UPOS tags; the speaker may be unknown ('').

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
    """Yields the relations of a sentence, without adpositions."""
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
    """Returns the noun phrase before a place, or before adverbs there."""
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
    """Returns whether a conjunction joins a verb to the one before, across its object only."""
    between = [tag for tag in tags[start:end] if tag != 'ADV']
    return between[-1:] == ['CCONJ'] and not {'PUNCT', 'SCONJ'} & {*between}


def _with_object(tags: Sequence[str], relation: Span) -> tuple[Span, Span]:
    """Returns the relation with its adposition, if any, and the noun phrase behind it."""
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
    """Splits an utterance into sentences of tokens.

    Example: "I can't. Ask Ben!" -> [['I', "can't", '.'], ['Ask', 'Ben', '!']]
    """
    return [tokens for part in _END.split(text) if (tokens := _TOKEN.findall(part))]


def line(
    maker: str, number: int, tokens: Sequence[str], tags: Sequence[str], triple: Triple
) -> str:
    """Returns a line of a file of triples, with words in lower case as lemmas.

    `number` is that of the sentence, from 0; unknown tags are '_'.
    """
    spans = triple.subject, triple.relation, triple.object
    phrases = [' '.join(tokens[start:end]) for start, end in spans]
    phrases[0] = triple.name or phrases[0]
    places = [str(place) for span in spans for place in span]
    lemmas = [phrase.lower() for phrase in phrases]
    columns = [maker, str(number), *phrases, *places, '1.000', ' '.join(tokens), ' '.join(tags)]
    return '\t'.join([*columns, *lemmas]) + '\n'


def find(phrase: str, tokens: Sequence[str], start: int = 0) -> Span | None:
    """Finds a phrase in a sentence, from a token on, regardless of capitals."""
    words = [word.lower() for word in _TOKEN.findall(phrase)]
    lower = [token.lower() for token in tokens]
    for first in range(start, len(tokens) - len(words) + 1):
        if lower[first : first + len(words)] == words:
            return first, first + len(words)
    return None
