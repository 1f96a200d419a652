// The whole page: its theme, its tables (sorted, compared, saved) and its plots (saved).

const data = JSON.parse(find('data').textContent);

// What a screen reader says.
function say(text) {
  find('status').textContent = text;
}

function save(name, text, type) {
  saveFile(name, text, type);
  say(`${name} is saved.`);
}

// ------------------------------------------------------------------------------------- theme

const THEME = 'xlbench report theme';

function isDark() {
  const {theme} = document.documentElement.dataset;
  return theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function setUpTheme() {
  const button = find('theme');
  const show = () => button.setAttribute('aria-pressed', isDark());
  const chosen = stored(THEME);
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    const {theme} = document.documentElement.dataset;
    if (!store(THEME, theme)) say('This browser does not keep the theme.');
    show();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  show();
}

// ------------------------------------------------------------------------------------ tables

const numberOf = (cell) => cell?.dataset.value === undefined ? null : Number(cell.dataset.value);
const systemsOf = (table) => [...table.tBodies[0].rows].filter((row) => 'name' in row.dataset);

function compareCells(a, b) {
  const numbers = [numberOf(a), numberOf(b)];
  if (numbers.includes(null)) return (numbers[0] === null) - (numbers[1] === null);
  return numbers[1] - numbers[0];  // The highest number first.
}

function sortBy(table, header) {
  const place = header.cellIndex;
  const isName = place === 0;
  const first = isName ? 'ascending' : 'descending';
  const second = isName ? 'descending' : 'ascending';
  const order = header.getAttribute('aria-sort') === first ? second : first;
  for (const other of table.querySelectorAll('[aria-sort]')) other.setAttribute('aria-sort', 'none');
  header.setAttribute('aria-sort', order);
  const sign = order === first ? 1 : -1;
  const rows = systemsOf(table);
  const missing = (row) => !isName && numberOf(row.cells[place]) === null;
  rows.sort((a, b) => (missing(a) - missing(b)) || sign * (isName
    ? a.dataset.name.localeCompare(b.dataset.name)
    : compareCells(a.cells[place], b.cells[place])));
  const others = [...table.tBodies[0].rows].filter((row) => !rows.includes(row));
  table.tBodies[0].append(...rows, ...others);
  say(`Sorted by ${header.textContent}, ${order}.`);
}

// Shows how far a cell is from the cell of the reference in its column.
function showDifference(cell, reference, direction) {
  cell.querySelector('.difference')?.remove();
  const numbers = [numberOf(cell), numberOf(reference)];
  if (numbers.includes(null)) return;
  const difference = numbers[0] - numbers[1];
  const text = difference.toFixed(decimalsOf(cell));
  const sense = Number(text) * direction;
  const [tone, mark] = sense > 0 ? ['gain', '▲ '] : sense < 0 ? ['loss', '▼ '] : ['', ''];
  const signed = Number(text) > 0 ? `+${text}` : text.replace('-', '−');
  cell.append(make('span', {className: `difference ${tone}`}, `${mark}${signed}`));
}

const decimalsOf = (cell) => (/\.(\d+)/.exec(cell.firstChild.textContent)?.[1] ?? '').length;

function compareWith(table, name) {
  const rows = systemsOf(table);
  const reference = rows.find((row) => row.dataset.name === name);
  for (const row of rows) {
    row.classList.toggle('reference', row === reference);
    [...row.cells].slice(1).forEach((cell, i) => showDifference(
      cell, row === reference ? null : reference?.cells[i + 1], Number(table.dataset.direction)));
  }
}

function setUpTables() {
  for (const table of document.querySelectorAll('table.compared')) {
    for (const header of table.querySelectorAll('th[aria-sort]')) {
      header.firstChild.addEventListener('click', () => sortBy(table, header));
    }
  }
  for (const choice of document.querySelectorAll('[data-reference]')) {
    const table = document.querySelector(`#${choice.dataset.reference} table`);
    choice.addEventListener('change', () => compareWith(table, choice.value));
    compareWith(table, choice.value);
  }
}

// A spreadsheet would run text that begins like this as a formula.
function csvField(text) {
  const safe = /^[=+\-@]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const textOf = (cell) => cell.dataset.value ?? (cell.firstChild?.textContent ?? '');
const nameOf = (cell) => cell.textContent.trim();

function csvOf(table) {
  const groups = [...table.tHead.rows].length > 1
    ? [...table.tHead.rows[0].cells].flatMap((cell) => Array(cell.colSpan).fill(nameOf(cell))) : [];
  const labels = [...[...table.tHead.rows].at(-1).cells].map(
    (cell, i) => `${groups[i] ?? ''} ${nameOf(cell)}`.trim());
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells]);
  // A deviation has a column of its own, behind that of its number.
  const spread = labels.map((_, i) => rows.some((cells) => cells[i]?.dataset.spread));
  const line = (items, text, ofSpread) => items.flatMap(
    (item, i) => (spread[i] ? [text(item, i), ofSpread(item)] : [text(item, i)]));
  const lines = [
    line(labels, (label) => label, (label) => `${label} ±`),
    ...rows.map((cells) => line(
      cells, (cell, i) => (i ? textOf(cell) : nameOf(cell)), (cell) => cell.dataset.spread ?? '')),
  ];
  return `${lines.map((row) => row.map(csvField).join(',')).join('\n')}\n`;
}

// The name of a file of a table or a plot, from its title.
function fileName(figure, ending) {
  const title = figure.querySelector('h4, caption, figcaption')?.textContent ?? figure.id;
  return `${title.replace(/[^\p{L}\p{N}]+/gu, '_').replace(/^_|_$/g, '').slice(0, 60)}.${ending}`;
}

async function copy(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {  // A page that was opened as a file may not write there.
    save(fileName(button.closest('figure'), 'tex'), text, 'application/x-tex');
    button.textContent = 'Saved';
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

function setUpButtons() {
  document.addEventListener('click', ({target}) => {
    if (!(target instanceof HTMLButtonElement)) return;
    const {csv, latex, svg} = target.dataset;
    const figure = target.closest('figure');
    if (csv) save(fileName(figure, 'csv'), csvOf(figure.querySelector('table')), 'text/csv');
    if (latex) copy(target, data.latex[latex]);
    if (svg) make('a', {href: find(svg).src, download: fileName(figure, 'svg')}).click();
  });
}

setUpTheme();
setUpTables();
setUpButtons();
// On paper nothing can be unfolded, but the tables of other scores are part of the results.
addEventListener('beforeprint', () => {
  for (const folded of document.querySelectorAll('section > details:not(.origins)')) folded.open = true;
});
