// The browser of examples: a list that is filtered and sorted, of which only the rows in sight are
// in the page, and one open example with every system's text beside the reference.

const FOLDED = 700;  // Characters; longer texts are folded.
const SNIPPET = 160;  // Characters of a row.

// An example as Python wrote it: a list, to keep the page small.
function exampleOf([task, id, input, references, texts, scores, others], place, tasks) {
  return {task: tasks[task], id, input, references, texts, scores, others, place};
}

const known = (numbers) => numbers.filter((number) => number !== null);
const meanOf = (numbers) => known(numbers).reduce((sum, n, _, all) => sum + n / all.length, 0);

// How far the systems are apart: by their scores, then by how many different texts they have.
function disagreement({scores, texts}) {
  const numbers = known(scores);
  const range = numbers.length > 1 ? Math.max(...numbers) - Math.min(...numbers) : 0;
  return range + new Set(texts.filter((text) => text !== null)).size / 1000;
}

const scoreOf = (example, system) => {
  if (system >= 0) return example.scores[system];
  return known(example.scores).length ? meanOf(example.scores) : null;
};

const ORDERS = {
  order: ['Order of the data', () => 0],
  disagreement: ['Systems disagree most', (a) => -disagreement(a)],
  highest: ['Highest score', (a, system) => -(scoreOf(a, system) ?? -Infinity)],
  lowest: ['Lowest score', (a, system) => scoreOf(a, system) ?? Infinity],
  longest: ['Longest input', (a) => -a.input.length],
};

function sorted(examples, order, system) {
  const [, key] = ORDERS[order];
  const keys = new Map(examples.map((example) => [example, key(example, system)]));
  return examples.toSorted((a, b) => (keys.get(a) - keys.get(b)) || a.place - b.place);
}

const haystackOf = (example) => {
  example.haystack ??= [example.id, example.input, ...example.references,
    ...example.texts.map((text) => text ?? '')].join('\n').toLowerCase();
  return example.haystack;
};

function matches(example, {task, lang, text, low, high, system}) {
  if (task !== '' && example.task.name !== task) return false;
  if (lang !== '' && example.task.target !== lang && example.task.source !== lang) return false;
  if (low !== null || high !== null) {
    const score = scoreOf(example, system);
    if (score === null || score < (low ?? -Infinity) || score > (high ?? Infinity)) return false;
  }
  return text === '' || haystackOf(example).includes(text);
}

// ------------------------------------------------------------------------------------- controls

function labelled(text, control) {
  return make('label', {}, make('span', {}, text), control);
}

function choiceOf(name, options, chosen = '') {
  const choice = make('select', {name});
  for (const [value, text] of options) choice.append(make('option', {value, selected: value === chosen}, text));
  return choice;
}

function controlsOf(content) {
  const langs = [...new Set(content.tasks.flatMap(({source, target}) => [source, target]))].filter(Boolean);
  const systems = content.systems.map(({name}, i) => [String(i), name]);
  const number = (name) => make('input', {type: 'number', name, step: 'any', inputMode: 'decimal'});
  const form = make('form', {className: 'filters'},
    labelled('Text', make('input', {type: 'search', name: 'text', placeholder: 'anywhere in the example'})),
    labelled('Task', choiceOf('task', [['', 'all'], ...content.tasks.map(({name}) => [name, name])])),
    labelled('Language', choiceOf('lang', [['', 'all'], ...langs.map((lang) => [lang, lang])])));
  if (content.score) {
    form.append(
      labelled(`${content.score} of`, choiceOf('system', [['-1', 'the mean of all'], ...systems])),
      labelled('from', number('low')), labelled('to', number('high')));
  }
  form.append(labelled('Sort', choiceOf('order', Object.entries(ORDERS)
    .filter(([name]) => content.score || !['highest', 'lowest'].includes(name))
    .map(([name, [text]]) => [name, text]))));
  form.setAttribute('role', 'search');
  form.setAttribute('aria-label', 'Examples');
  form.addEventListener('submit', (event) => event.preventDefault());
  return form;
}

function wishesOf(form) {
  const values = Object.fromEntries(new FormData(form));
  const numberIn = (text) => (text === undefined || text === '' ? null : Number(text));
  return {
    ...values, text: values.text.toLowerCase(), system: Number(values.system ?? -1),
    low: numberIn(values.low), high: numberIn(values.high),
  };
}

// ----------------------------------------------------------------------------------------- list

// A list of rows of one height, of which those in sight (and some around) are in the page.
class RowList {
  constructor(id, makeRow, open) {
    Object.assign(this, {id, makeRow, open, items: [], at: -1});
    this.space = make('div', {className: 'space'});
    this.element = make('div', {className: 'list', tabIndex: 0}, this.space);
    this.element.setAttribute('role', 'listbox');
    this.element.setAttribute('aria-label', 'Examples');
    this.element.addEventListener('scroll', () => this.draw());
    this.element.addEventListener('keydown', (event) => this.move(event));
    this.element.addEventListener('click', ({target}) => {
      const row = target.closest('[role=option]');
      if (row) this.choose(Number(row.dataset.place));
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  get rowHeight() {
    return 4 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  show(items) {
    this.items = items;
    this.space.style.height = `${items.length * this.rowHeight}px`;
    this.element.scrollTop = 0;
    this.choose(items.length ? 0 : -1);
  }

  draw() {
    const height = this.rowHeight;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - 4);
    const end = Math.min(this.items.length, first + Math.ceil(this.element.clientHeight / height) + 9);
    const rows = [];
    for (let place = first; place < end; place++) {
      const row = this.makeRow(this.items[place]);
      Object.assign(row, {id: `${this.id}-${place}`, role: 'option', ariaPosInSet: place + 1, ariaSetSize: this.items.length});
      row.ariaSelected = place === this.at;
      row.dataset.place = place;
      row.style.transform = `translateY(${place * height}px)`;
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
  }

  choose(place) {
    this.at = place;
    const top = place * this.rowHeight;
    const {scrollTop, clientHeight} = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    if (top + this.rowHeight > scrollTop + clientHeight) this.element.scrollTop = top + this.rowHeight - clientHeight;
    this.draw();
    if (place < 0) this.element.removeAttribute('aria-activedescendant');
    else this.element.setAttribute('aria-activedescendant', `${this.id}-${place}`);
    this.open(place < 0 ? null : this.items[place]);
  }

  move(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (!(event.key in steps) || !this.items.length) return;
    event.preventDefault();
    this.choose(Math.min(this.items.length - 1, Math.max(0, this.at + steps[event.key])));
  }
}

function rowOf(example, content) {
  const scores = example.scores.map((score, i) => (score === null ? '' : make('span', {
    className: `chip ${content.systems[i].mark}`, title: content.systems[i].name,
  }, score.toFixed(1))));
  return make('div', {className: 'row'},
    make('span', {className: 'snippet', dir: 'auto', lang: example.task.source}, example.input.slice(0, SNIPPET)),
    make('span', {className: 'about'}, `${example.task.name} ${example.id}`, ...scores));
}

// --------------------------------------------------------------------------------- open example

// A text that is folded where it is long.
function proseOf(pieces, length, lang, dir) {
  const text = make('p', {className: 'text', lang, dir: dir || 'auto'}, ...pieces);
  if (length <= FOLDED) return [text];
  text.classList.add('folded');
  const button = make('button', {type: 'button'}, `Show all ${length.toLocaleString('en')} characters`);
  button.ariaExpanded = false;
  button.addEventListener('click', () => {
    const isFolded = text.classList.toggle('folded');
    button.ariaExpanded = !isFolded;
    button.textContent = isFolded ? `Show all ${length.toLocaleString('en')} characters` : 'Show less';
  });
  return [text, button];
}

// The pieces of a text; words that the other text lacks are marked.
function marked(text, other, lang) {
  if (other === null) return [text];
  const cutter = new Intl.Segmenter(lang || undefined, {granularity: 'word'});
  const known = new Set([...cutter.segment(other)].map(({segment}) => segment.toLowerCase()));
  return [...cutter.segment(text)].map(({segment, isWordLike}) => (
    isWordLike && !known.has(segment.toLowerCase()) ? make('mark', {}, segment) : segment));
}

function blockOf(title, ...children) {
  return make('section', {className: 'card'}, make('h5', {}, ...[title].flat()), ...children);
}

function systemOf(example, content, i, base) {
  const {name, mark} = content.systems[i];
  const {target, targetDir} = example.task;
  const score = example.scores[i];
  const title = [make('span', {}, make('span', {className: `mark ${mark}`, ariaHidden: 'true'}), name)];
  if (score !== null) title.push(make('span', {className: 'score'}, `${content.score} ${score.toFixed(1)}`));
  const text = example.texts[i];
  if (text === null) return blockOf(title, make('p', {className: 'empty'}, 'No text.'));
  if (!text.trim()) return blockOf(title, make('p', {className: 'empty'}, 'The text is empty.'));
  const parts = proseOf(marked(text, base, target), text.length, target, targetDir);
  if (example.others[i].length) {
    const items = example.others[i].map((other) => make('li', {lang: target, dir: targetDir}, other));
    parts.push(make('details', {}, make('summary', {}, `${items.length} more`), make('ol', {}, ...items)));
  }
  return blockOf(title, ...parts);
}

function openExample(place, example, content, compared) {
  if (!example) {
    place.replaceChildren(make('p', {className: 'empty'}, 'No example has all of that.'));
    return;
  }
  const {source, sourceDir, target, targetDir} = example.task;
  const bases = {reference: example.references[0] ?? null, nothing: null};
  const base = compared in bases ? bases[compared] : example.texts[Number(compared)];
  const references = example.references.map((text, i) => blockOf(
    example.references.length > 1 ? `Reference ${i + 1}` : 'Reference', ...proseOf([text], text.length, target, targetDir)));
  const systems = content.systems.map((_, i) => systemOf(example, content, i, base));
  place.replaceChildren(
    make('h4', {}, `${example.task.name}, example ${example.id}`),
    blockOf('Input', ...proseOf([example.input], example.input.length, source, sourceDir)),
    make('div', {className: 'texts'}, ...references, ...systems));
}

// ------------------------------------------------------------------------------------ the whole

function setUpBrowser(element, content) {
  const examples = content.examples.map((list, place) => exampleOf(list, place, content.tasks));
  const form = controlsOf(content);
  const compared = choiceOf('compared', [['reference', 'the reference'],
    ...content.systems.map(({name}, i) => [String(i), name]), ['nothing', 'nothing']]);
  const count = make('p', {className: 'tally', role: 'status'});
  const open = make('article', {className: 'open', ariaLabel: 'Open example'});
  let shown = null;
  const list = new RowList(`examples-${element.dataset.section}`, (example) => rowOf(example, content),
    (example) => openExample(open, shown = example, content, compared.value));
  const update = () => {
    const wishes = wishesOf(form);
    const chosen = examples.filter((example) => matches(example, wishes));
    list.show(sorted(chosen, wishes.order, wishes.system));
    const of = content.total > examples.length ? `, evenly chosen from ${content.total.toLocaleString('en')}` : '';
    count.textContent = `${chosen.length.toLocaleString('en')} of ${examples.length.toLocaleString('en')} examples${of}`;
  };
  form.addEventListener('input', update);
  compared.addEventListener('change', () => openExample(open, shown, content, compared.value));
  const key = make('p', {className: 'key'}, 'Words like ', make('mark', {}, 'this'),
    ' are not in the text compared with.');
  element.append(form, make('div', {className: 'bar'}, count, labelled('Differences to', compared)), key,
    make('div', {className: 'panes'}, list.element, open));
  update();
}

for (const element of document.querySelectorAll('.browser')) {
  setUpBrowser(element, data.sections[Number(element.dataset.section.slice(1)) - 1]);
}
