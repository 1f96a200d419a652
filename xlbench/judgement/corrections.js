// A sheet of translations to correct: one example at a time, each text beside its original. What a
// person writes stays in the browser, and is saved as a file.

const sheet = content();
const KEY = `xlbench ${sheet.sheet}`;
const fresh = (item) => ({texts: [...item.texts], state: ''});  // '', 'done' or 'out'

let state = {items: sheet.items.map(fresh), at: 0, started: false};
let keeps = true;  // Whether the browser keeps the texts.
let isSaved = true;

function put(number, texts, isOut) {
  const isText = Array.isArray(texts) && texts.length === sheet.fields.length
    && texts.every((text) => typeof text === 'string');
  if (!isText || !sheet.items[number]) return;
  state.items[number] = {texts, state: isOut ? 'out' : 'done'};
}

function restore() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? 'null');
    kept?.items?.forEach((item, number) => {
      put(number, item.texts, item.state === 'out');
      if (state.items[number] && !item.state) state.items[number].state = '';
    });
    state.started = Boolean(kept?.started);
    if (Number.isInteger(kept?.at) && kept.at >= 0 && kept.at <= sheet.items.length) {
      state.at = kept.at;
    }
  } catch {
    keeps = false;
  }
}

function keep() {
  keeps = keepInBrowser(KEY, state) && keeps;
  warn(keeps, 'corrections');
}

const count = (name) => state.items.filter((item) => item.state === name).length;
const countLeft = () => count('');

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

function button(label, id, action, isMain = false) {
  const made = make('button', {type: 'button', id, className: isMain ? 'main' : ''}, label);
  made.addEventListener('click', action);
  return made;
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
    button('All is right', 'done', () => decide('done'), true),
    button('Leave the example out', 'out', () => decide('out')),
    button('Undo my changes', 'undo', () => {
      state.items[number] = fresh(sheet.items[number]);
      show(number);
    })), hint);
}

function overview() {
  const left = countLeft();
  const grid = make('div', {className: 'grid'});
  state.items.forEach((item, number) => {
    const mark = {done: ' ✓', out: ' –'}[item.state] ?? '';
    const entry = button(`${number + 1}${mark}`, '', () => show(number));
    entry.className = item.state;
    grid.append(entry);
  });
  const said = left
    ? `${sheet.items.length - left} of ${sheet.items.length} examples are finished. Choose one.`
    : 'You have finished every example. Save your corrections and send the file back.';
  const input = make('input', {type: 'file', accept: '.json,application/json'});
  input.addEventListener('change', () => load(input.files[0]));
  const result = make('p', {id: 'result'});
  result.setAttribute('role', 'status');
  return make('section', {className: 'card'},
    make('h2', {}, 'Overview'), make('p', {}, said), grid,
    make('div', {className: 'actions'}, button('Save corrections', 'save-all', download, !left),
      make('label', {className: 'file'}, 'Go on from a saved file', input)),
    result);
}

function show(number) {
  state.at = number;
  find('item').replaceChildren(number < sheet.items.length ? itemView(number) : overview());
  const finished = sheet.items.length - countLeft();
  find('bar').value = finished / sheet.items.length;
  const place = number < sheet.items.length ? `Item ${number + 1} of ${sheet.items.length}, ` : '';
  find('count').textContent = `${place}${finished} finished`;
  find('previous').disabled = number === 0;
  find('next').disabled = number === sheet.items.length;
  keep();
  window.scrollTo(0, 0);
}

// --------------------------------------------------------------------------------------- files

function correctionsFile() {
  const items = state.items.flatMap(({texts, state: name}, number) => (
    name ? [{item: number + 1, left_out: name === 'out', texts}] : []));
  const lines = items.map((i) => [i.item, i.left_out ? 1 : 0, ...i.texts].join('\t'));
  return {
    format: 'xlbench corrections 1',
    sheet: sheet.sheet,
    name: sheet.name,
    saved: new Date().toISOString(),
    items,
    checksum: crc32([sheet.sheet, ...lines].join('\n')),
  };
}

function download() {
  saveFile(sheet.file, correctionsFile());
  isSaved = true;
  const left = countLeft();
  (find('result') ?? find('count')).textContent = left
    ? `Saved as ${sheet.file}; ${left} examples are not finished yet.`
    : `Saved as ${sheet.file}. Thank you.`;
}

async function load(file) {
  try {
    const saved = JSON.parse(await file.text());
    if (saved.sheet !== sheet.sheet) {
      find('result').textContent = 'This file holds corrections of another sheet.';
      return;
    }
    saved.items.forEach((item) => put(item.item - 1, item.texts, item.left_out));
    state.started = true;
    show(sheet.items.length);
    find('result').textContent = 'The corrections of the file are here again.';
  } catch {
    find('result').textContent = 'This file holds no corrections.';
  }
}

restore();
find('save').textContent = 'Save corrections';
find('rules').replaceChildren(
  ...sheet.rules.map((line) => make('p', {}, line)),
  make('div', {className: 'actions'}, button('Start', 'start', () => {
    find('guidelines').open = false;
    show(state.at);
  }, true)));
find('guidelines').open = !state.started;
find('previous').addEventListener('click', () => show(state.at - 1));
find('next').addEventListener('click', () => show(state.at + 1));
find('overview').addEventListener('click', () => show(sheet.items.length));
find('save').addEventListener('click', download);
window.addEventListener('beforeunload', (event) => {
  if (!keeps && !isSaved) event.preventDefault();
});
show(state.at);
