// What judges' pages share: moving from item to item, what the browser keeps, and files. The
// script of a page says what it shows:
//   state  {at, started, ...}: the item that is shown, the guidelines' end, and what is answered
//   page   words: `what` is saved, of which `items`, that are `done`; the `kind` of page that a file
//          is of; `said(done)`, how far it is; its `rules` as elements
//          data: `id` and `length`; the `file`'s name, what it is `about`, and its `field` with
//          `entries()`, each a `line(entry)` of the checksum
//          functions: `stateOf(number)` is '', 'done' or 'out'; `itemView(number)`; `restore(kept)`
//          and `load(saved)`; if needed `shown()` and `counted()`

let keeps = true;  // Whether the browser keeps the state.
let isSaved = true;

// What does nothing without a script is hidden until there is one.
for (const part of document.querySelectorAll('header [hidden], nav')) part.hidden = false;

// What the page shows, as Python wrote it.
const content = () => JSON.parse(find('study').textContent);

function textOf(text, lang, dir) {
  const isEmpty = !text.trim();
  const name = `text${isEmpty ? ' empty' : ''}${text.length > 900 ? ' long' : ''}`;
  const props = {className: name, lang: isEmpty ? 'en' : lang, dir: isEmpty ? 'ltr' : dir};
  if (text.length > 900) props.tabIndex = 0;  // It scrolls, by keyboard too.
  return make('p', props, isEmpty ? 'The text is empty.' : text);
}

function button(label, action, props = {}) {
  const made = make('button', {type: 'button', ...props}, label);
  made.addEventListener('click', action);
  return made;
}

// ------------------------------------------------------------------------------------- the browser

const keyOfPage = () => `xlbench ${page.id}`;

function restore() {
  try {
    const kept = JSON.parse(stored(keyOfPage()) ?? 'null');
    if (kept) page.restore(kept);
    state.started = Boolean(kept?.started);
    if (Number.isInteger(kept?.at) && kept.at >= 0 && kept.at <= page.length) state.at = kept.at;
  } catch {
    keeps = false;
  }
}

function keep() {
  keeps &&= store(keyOfPage(), JSON.stringify(state));
  find('warning').hidden = keeps;
  if (!keeps) {
    find('warning').textContent =
      `This browser does not keep your ${page.what}. Save them before you close the page.`;
  }
}

// ----------------------------------------------------------------------------------- item to item

const countDone = () => [...Array(page.length).keys()].filter(page.stateOf).length;

function showCount() {
  const done = countDone();
  find('bar').value = done / page.length;
  const place = state.at < page.length ? `Item ${state.at + 1} of ${page.length}, ` : '';
  find('count').textContent = `${place}${done} ${page.done}`;
  find('previous').disabled = state.at === 0;
  find('next').disabled = state.at === page.length;
  page.counted?.();
}

function show(number) {
  state.at = number;
  find('item').replaceChildren(number < page.length ? page.itemView(number) : overview());
  showCount();
  keep();
  window.scrollTo(0, 0);
  page.shown?.();
}

function overview() {
  const done = countDone();
  const grid = make('div', {className: 'grid'});
  for (let number = 0; number < page.length; number++) {
    const className = page.stateOf(number);
    const mark = {done: ' ✓', out: ' –'}[className] ?? '';
    grid.append(button(`${number + 1}${mark}`, () => show(number), {className}));
  }
  const input = make('input', {type: 'file', accept: '.json,application/json'});
  input.addEventListener('change', () => load(input.files[0]));
  const result = make('p', {id: 'result'});
  result.setAttribute('role', 'status');
  const className = done === page.length ? 'main' : '';
  return make('section', {className: 'card'},
    make('h2', {}, 'Overview'), make('p', {}, page.said(done)), grid,
    make('div', {className: 'actions'},
      button(`Save ${page.what}`, download, {id: 'save-all', className}),
      make('label', {className: 'file'}, 'Go on from a saved file', input)),
    result);
}

// ------------------------------------------------------------------------------------------- files

function crc32(text) {
  let crc = ~0;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return (~crc >>> 0).toString(16).padStart(8, '0');
}

function download() {
  const entries = page.entries();
  const file = {
    format: `xlbench ${page.what} 1`,
    ...page.about,
    saved: new Date().toISOString(),
    [page.field]: entries,
    checksum: crc32([page.id, ...entries.map(page.line)].join('\n')),
  };
  const text = `${JSON.stringify(file, null, 1)}\n`;
  saveFile(page.file, text, 'application/json');
  isSaved = true;
  const left = page.length - countDone();
  (find('result') ?? find('count')).textContent = left
    ? `Saved as ${page.file}; ${left} ${page.items} are not ${page.done} yet.`
    : `Saved as ${page.file}. Thank you.`;
}

async function load(file) {
  try {
    const saved = JSON.parse(await file.text());
    if (saved[page.kind] !== page.id) {
      find('result').textContent = `This file holds ${page.what} of another ${page.kind}.`;
      return;
    }
    page.load(saved);
    state.started = true;
    show(page.length);
    find('result').textContent = `The ${page.what} of the file are here again.`;
  } catch {
    find('result').textContent = `This file holds no ${page.what}.`;
  }
}

function begin() {
  restore();
  find('save').textContent = `Save ${page.what}`;
  const start = button('Start', () => {
    find('guidelines').open = false;
    show(state.at);
  }, {id: 'start', className: 'main'});
  find('rules').replaceChildren(...page.rules, make('div', {className: 'actions'}, start));
  find('guidelines').open = !state.started;
  find('previous').addEventListener('click', () => show(state.at - 1));
  find('next').addEventListener('click', () => show(state.at + 1));
  find('overview').addEventListener('click', () => show(page.length));
  find('save').addEventListener('click', download);
  window.addEventListener('beforeunload', (event) => {
    if (!keeps && !isSaved) event.preventDefault();
  });
  show(state.at);
}
