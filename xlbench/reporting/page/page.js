// The tables of the page: sorted, and compared.

const data = JSON.parse(find('data').textContent);

// What a screen reader says.
function say(text) {
  find('status').textContent = text;
}

const numberOf = (cell) => cell?.dataset.value === undefined ? null : Number(cell.dataset.value);
const systemsOf = (table) => [...table.tBodies[0].rows].filter((row) => 'name' in row.dataset);

function sortBy(table, header) {
  const place = header.cellIndex;
  const isName = place === 0;
  const first = isName ? 'ascending' : 'descending';
  const second = isName ? 'descending' : 'ascending';
  const order = header.getAttribute('aria-sort') === first ? second : first;
  for (const other of table.querySelectorAll('[aria-sort]')) other.setAttribute('aria-sort', 'none');
  header.setAttribute('aria-sort', order);
  const sign = order === 'ascending' ? 1 : -1;
  const rows = systemsOf(table);
  const valueOf = (row) => numberOf(row.cells[place]);
  const compare = isName
    ? (a, b) => sign * a.dataset.name.localeCompare(b.dataset.name)
    : (a, b) => (valueOf(a) === null) - (valueOf(b) === null) || sign * (valueOf(a) - valueOf(b));
  rows.sort(compare);
  const others = [...table.tBodies[0].rows].filter((row) => !rows.includes(row));
  table.tBodies[0].append(...rows, ...others);
  say(`Sorted by ${header.textContent}, ${order}.`);
}

// Shows how far a cell is from the cell of the reference in its column.
function showDifference(cell, reference) {
  cell.querySelector('.difference')?.remove();
  const numbers = [numberOf(cell), numberOf(reference)];
  if (numbers.includes(null)) return;
  const difference = numbers[0] - numbers[1];
  const text = difference.toFixed(decimalsOf(cell));
  const signed = Number(text) > 0 ? `+${text}` : text.replace('-', '−');
  cell.append(make('span', {className: 'difference'}, signed));
}

const decimalsOf = (cell) => (/\.(\d+)/.exec(cell.firstChild.textContent)?.[1] ?? '').length;

function compareWith(table, name) {
  const rows = systemsOf(table);
  const reference = rows.find((row) => row.dataset.name === name);
  for (const row of rows) {
    row.classList.toggle('reference', row === reference);
    [...row.cells].slice(1).forEach((cell, i) => showDifference(
      cell, row === reference ? null : reference?.cells[i + 1]));
  }
}

function setUpTables() {
  for (const table of document.querySelectorAll('table.compared')) {
    for (const header of table.querySelectorAll('th[aria-sort]')) {
      header.firstChild.addEventListener('click', () => sortBy(table, header));
    }
  }
  for (const choice of document.querySelectorAll('[data-reference]')) {
    const table = choice.closest('figure').querySelector('table');
    choice.addEventListener('change', () => compareWith(table, choice.value));
    compareWith(table, choice.value);
  }
}

setUpTables();
// On paper nothing can be unfolded, but the tables of other scores are part of the results.
addEventListener('beforeprint', () => {
  for (const folded of document.querySelectorAll('section > details:not(.origins)')) folded.open = true;
});
