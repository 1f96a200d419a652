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
from collections.abc import Sequence
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
    kinds = ''.join(_KINDS.get(tag, '-') for tag in tags)
    triples: list[Triple] = []
    for match in _RELATION.finditer(kinds):
        start, end = match.span(1)
        if found := _SUBJECT.search(kinds, 0, start):
            subject = found.span(1)
        elif triples:
            # A conjunction may join a verb to the one before, across its object only.
            between = kinds[triples[-1].relation[1] : start].replace('d', '')
            if not between.endswith('c') or 's' in between:
                continue
            subject = triples[-1].subject
        else:
            continue
        target = _OBJECT.match(kinds, end)
        relation = start, end + (len(target[1]) if target else 0)
        first = ' '.join(tokens[slice(*subject)]).lower() in ('i', 'we')
        phrases = subject, relation, target.span(2) if target else (0, 0)
        triples.append(Triple(*phrases, speaker if first else ''))
    return triples


# A letter for each tag that counts, so that phrases are patterns.
_KINDS = {
    'VERB': 'v', 'AUX': 'a', 'PART': 'a', 'ADV': 'd', 'NOUN': 'n', 'PROPN': 'n', 'DET': 'b',
    'ADJ': 'b', 'NUM': 'b', 'PRON': 'p', 'ADP': 'o', 'CCONJ': 'c', 'SCONJ': 's', 'PUNCT': 's',
}  # fmt: skip
_RELATION = re.compile('d*+([vad]*v)')  # Adverbs are not given back: n^3 steps.
_SUBJECT = re.compile(r'(p|[bn]*n)d*\Z')
_OBJECT = re.compile('(o?)(p|[bn]*n)')


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
