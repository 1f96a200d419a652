// Words of texts in any script, and which of them two texts share, in the same order.

const MOST_CELLS = 1000000;  // Of the table of a comparison; longer texts are compared as sets.

function segmenter(lang) {
  try {
    return new Intl.Segmenter(lang || undefined, {granularity: 'word'});
  } catch {  // A language that the browser does not know, or a browser without it.
    return null;
  }
}

// A text as pieces, each a word or what stands between two.
function piecesOf(text, lang) {
  const cutter = globalThis.Intl?.Segmenter ? segmenter(lang) : null;
  if (!cutter) {
    return text.split(/(\s+)/).filter(Boolean).map((piece) => ({text: piece, isWord: /\S/.test(piece)}));
  }
  return [...cutter.segment(text)].map(({segment, isWordLike}) => ({text: segment, isWord: Boolean(isWordLike)}));
}

const wordsOf = (pieces) => pieces.filter((piece) => piece.isWord).map((piece) => piece.text.toLowerCase());

// The lengths of the longest common subsequences of all ends of two lists.
function commonLengths(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = i * width + j;
      lengths[at] = a[i] === b[j]
        ? lengths[at + width + 1] + 1 : Math.max(lengths[at + width], lengths[at + 1]);
    }
  }
  return lengths;
}

// For each word of a, whether b has it too, in the same order.
function shared(a, b) {
  if (a.length * b.length > MOST_CELLS) {
    const others = new Set(b);
    return a.map((word) => others.has(word));
  }
  const lengths = commonLengths(a, b);
  const width = b.length + 1;
  const isShared = a.map(() => false);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      isShared[i++] = true;
      j++;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      i++;
    } else {
      j++;
    }
  }
  return isShared;
}
