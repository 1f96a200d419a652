// A sheet of translations to correct: one example at a time, each text beside its original. What a
// person writes stays in the browser, and is saved as a file.

const sheet = content();
const fresh = (item) => ({texts: [...item.texts], state: ''});  // '', 'done' or 'out'

const state = {items: sheet.items.map(fresh), at: 0, started: false};

function put(number, texts, isOut) {
  const isText = Array.isArray(texts) && texts.length === sheet.fields.length
    && texts.every((text) => typeof text === 'string');
  if (!isText || !sheet.items[number]) return;
  state.items[number] = {texts, state: isOut ? 'out' : 'done'};
}

// ------------------------------------------------------------------------------------ elements

function pairOf(number, field) {
  const item = sheet.items[number];
  const area = make('textarea', {
    value: state.items[number].texts[field], lang: sheet.lang, dir: sheet.dir, spellcheck: true,
  });
  area.setAttribute('aria-label', `${sheet.fields[field]}, translation`);
  const show = () => {
    area.classList.toggle('changed', area.value !== item.texts[field]);
    area.style.height = 'auto';
    area.style.height = `${area.scrollHeight + 4}px`;
  };
  area.addEventListener('input', () => {
    state.items[number].texts[field] = area.value;
    isSaved = false;
    state.started = true;
    show();
    keep();
  });
  setTimeout(show);  // Its height is known when it is on the page.
  return make('div', {className: 'pair'}, make('h2', {}, sheet.fields[field]),
    textOf(item.source[field], sheet.sourceLang, sheet.sourceDir), make('div', {}, area));
}

function decide(name) {
  if (name === 'done' && state.items[state.at].texts.some((text) => !text.trim())) {
    find('hint').textContent = 'A text is empty. Write it, or leave the example out.';
    return;
  }
  state.items[state.at].state = name;
  isSaved = false;
  state.started = true;
  show(state.at + 1);
}

function itemView(number) {
  const pairs = sheet.fields.map((_, field) => pairOf(number, field));
  const hint = make('p', {id: 'hint', className: 'keys'},
    {done: 'This example is finished.', out: 'This example is left out.'}[state.items[number].state]
    ?? 'Correct the texts, then say that they are right.');
  hint.setAttribute('role', 'status');
  return make('section', {className: 'card'}, ...pairs, make('div', {className: 'actions'},
    button('All is right', () => decide('done'), {id: 'done', className: 'main'}),
    button('Leave the example out', () => decide('out'), {id: 'out'}),
    button('Undo my changes', () => {
      state.items[number] = fresh(sheet.items[number]);
      show(number);
    }, {id: 'undo'})), hint);
}

// --------------------------------------------------------------------------------------- the page

const page = {
  what: 'corrections', items: 'examples', done: 'finished', kind: 'sheet', field: 'items',
  id: sheet.sheet,
  about: {sheet: sheet.sheet, name: sheet.name},
  file: sheet.file,
  length: sheet.items.length,
  rules: sheet.rules.map((line) => make('p', {}, line)),
  said: (done) => (done === sheet.items.length
    ? 'You have finished every example. Save your corrections and send the file back.'
    : `${done} of ${sheet.items.length} examples are finished. Choose one.`),
  stateOf: (number) => state.items[number].state,
  itemView,
  restore(kept) {
    kept.items?.forEach((item, number) => {
      put(number, item.texts, item.state === 'out');
      if (state.items[number] && !item.state) state.items[number].state = '';
    });
  },
  entries: () => state.items.flatMap(({texts, state: name}, number) => (
    name ? [{item: number + 1, left_out: name === 'out', texts}] : [])),
  line: (i) => [i.item, i.left_out ? 1 : 0, ...i.texts].join('\t'),
  load: (saved) => saved.items.forEach((i) => put(i.item - 1, i.texts, i.left_out)),
};

begin();
