// A judge's page: it shows one item at a time, keeps the answers in the browser, and saves them as
// a file. It knows texts by their letters only; which system wrote which stands in the study's key.

const study = content();
const LETTERS = 'ABCDEFGHI';
const isRating = study.kind === 'ratings';

// What has to be answered of an item, in order: a rating of each aspect of each text, or the best
// and the worst text for each aspect. An answer is the number of an option, from 0.
function rowsOf(item) {
  const letters = [...LETTERS.slice(0, item.texts.length)];
  if (isRating) {
    return letters.flatMap((text) => study.aspects.map(
      (aspect) => ({aspect, text, options: aspect.levels.map((_, i) => `${i + 1}`)})));
  }
  return study.aspects.flatMap((aspect) => ['best', 'worst'].map(
    (choice) => ({aspect, choice, options: letters})));
}
const rows = study.items.map(rowsOf);

const state = {answers: study.items.map(() => ({})), at: 0, started: false};

function isAnswer(item, row, option) {
  return Number.isInteger(option) && option >= 0 && option < (rows[item]?.[row]?.options.length ?? 0);
}

const isDone = (item) => rows[item].every((_, row) => row in state.answers[item]);

// ------------------------------------------------------------------------------------ elements

function levelText(row, option) {
  const levels = row.aspect.levels;
  if (option !== undefined) return `${option + 1}: ${levels[option]}`;
  return `1: ${levels[0]} … ${levels.length}: ${levels.at(-1)}`;
}

function fieldsetOf(item, number) {
  const row = rows[item][number];
  const level = isRating ? make('p', {className: 'level'}) : null;
  const options = make('div', {className: 'options'});
  row.options.forEach((label, option) => {
    const input = make('input', {
      type: 'radio', name: `row${number}`, value: option,
      checked: state.answers[item][number] === option,
      title: isRating ? row.aspect.levels[option] : '',
    });
    input.addEventListener('change', () => answer(number, option));
    options.append(make('label', {}, input, make('span', {}, label)));
  });
  const legend = isRating ? row.aspect.name : row.choice === 'best' ? 'Best' : 'Worst';
  const fieldset = make('fieldset', {}, make('legend', {}, legend), options);
  fieldset.dataset.row = number;
  options.setAttribute('role', 'radiogroup');
  options.setAttribute('aria-label', isRating
    ? `Text ${row.text}, ${row.aspect.name}` : `${legend} text, ${row.aspect.name}`);
  if (level) {
    level.textContent = levelText(row, state.answers[item][number]);
    fieldset.append(level);
  }
  return fieldset;
}

function itemView(index) {
  const item = study.items[index];
  const view = document.createDocumentFragment();
  if (item.input) {
    view.append(make('section', {className: 'card source'},
      make('h2', {}, item.label), textOf(item.input, item.inputLang, item.inputDir)));
  }
  const texts = make('div', {className: 'texts'});
  item.texts.forEach((text, slot) => {
    const card = make('article', {className: 'card'},
      make('h2', {}, `Text ${LETTERS[slot]}`), textOf(text, item.lang, item.dir));
    rows[index].forEach((row, number) => {
      if (row.text === LETTERS[slot]) card.append(fieldsetOf(index, number));
    });
    texts.append(card);
  });
  view.append(texts);
  if (!isRating) {
    const choices = make('section', {className: 'card choices'});
    study.aspects.forEach((aspect, i) => {
      choices.append(make('div', {},
        make('h3', {}, aspect.name), make('p', {className: 'about'}, aspect.question),
        fieldsetOf(index, 2 * i), fieldsetOf(index, 2 * i + 1)));
    });
    view.append(choices);
  }
  const last = isRating ? study.aspects[0].levels.length : item.texts.length;
  view.append(make('p', {className: 'keys'},
    make('kbd', {}, '1'), ' to ', make('kbd', {}, `${last}`), ' answer and go on, ',
    make('kbd', {}, '↑'), ' ', make('kbd', {}, '↓'), ' other row, ',
    make('kbd', {}, 'Enter'), ' next item, ', make('kbd', {}, 'n'), ' skip it, ',
    make('kbd', {}, 'p'), ' previous item, ',
    make('kbd', {}, 'g'), ' guidelines'));
  return view;
}

const guidelines = () => study.aspects.map((aspect) => {
  const about = make('div', {}, make('h3', {}, aspect.name), make('p', {}, aspect.question));
  const levels = aspect.levels.map((level) => make('li', {}, level));
  if (isRating) about.append(make('ol', {}, ...levels));
  return about;
});

// -------------------------------------------------------------------------------------- events

function answer(number, option) {
  const answers = state.answers[state.at];
  answers[number] = option;
  isSaved = false;
  state.started = true;
  const row = rows[state.at][number];
  if (row.choice) {
    // One text cannot be both: what was chosen last holds.
    const other = number + (row.choice === 'best' ? 1 : -1);
    if (answers[other] === option) {
      delete answers[other];
      document.querySelectorAll(`input[name=row${other}]`).forEach((i) => { i.checked = false; });
    }
  } else {
    document.querySelector(`fieldset[data-row="${number}"] .level`).textContent =
      levelText(row, option);
  }
  showCount();
  keep();
}

const fieldsets = () => [...document.querySelectorAll('fieldset')];
const activeRow = () => document.activeElement?.closest('fieldset');

function rowToAnswer(after = -1) {
  if (state.at === rows.length) return null;
  const open = fieldsets().filter((f) => !(f.dataset.row in state.answers[state.at]));
  return open.find((f) => Number(f.dataset.row) > after) ?? open[0] ?? null;
}

function focusRow(fieldset, stay = false) {
  const input = fieldset.querySelector('input:checked') ?? fieldset.querySelector('input');
  input.focus({preventScroll: true});
  if (!stay) fieldset.scrollIntoView({block: 'nearest'});
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const {key} = event;
  const onButton = document.activeElement?.closest('button, summary, .file');
  const fieldset = activeRow() ?? rowToAnswer();
  if (key === 'g') {
    find('guidelines').open = !find('guidelines').open;
    window.scrollTo(0, 0);
  } else if (key === 'p' && state.at > 0) {
    show(state.at - 1);
  } else if ((key === 'Enter' && !onButton || key === 'n') && state.at < rows.length) {
    const open = key === 'Enter' ? rowToAnswer() : null;
    if (open) focusRow(open);
    else show(state.at + 1);
  } else if (fieldset && /^[1-9]$/.test(key)) {
    const input = fieldset.querySelectorAll('input')[Number(key) - 1];
    if (!input) return;
    input.click();
    const next = rowToAnswer(Number(fieldset.dataset.row));
    if (next) focusRow(next);
    else input.focus();
  } else if (fieldset && (key === 'ArrowUp' || key === 'ArrowDown')) {
    const all = fieldsets();
    const next = all[all.indexOf(fieldset) + (key === 'ArrowUp' ? -1 : 1)];
    if (next) focusRow(next);
  } else {
    return;
  }
  event.preventDefault();
}

// --------------------------------------------------------------------------------------- files

const page = {
  what: 'answers', items: 'items', done: 'answered', kind: 'page', field: 'answers',
  id: study.page,
  about: {study: study.study, judge: study.judge, page: study.page},
  file: study.file,
  length: rows.length,
  rules: [
    ...study.instructions.map((line) => make('p', {}, line)),
    make('div', {className: 'aspects'}, ...guidelines()),
  ],
  said: (done) => (done === rows.length
    ? 'You have answered every item. Save your answers and send the file to those who asked you.'
    : `${done} of ${rows.length} items are answered. Choose one to go on with it.`),
  stateOf: (item) => (isDone(item) ? 'done' : ''),
  itemView,
  counted() {
    find('next').className = state.at < rows.length && isDone(state.at) ? 'main' : '';
  },
  shown() {
    const open = rowToAnswer();
    if (open) focusRow(open, true);
  },
  restore(kept) {
    kept.answers?.slice(0, rows.length).forEach((answers, item) => {
      for (const [row, option] of Object.entries(answers ?? {})) {
        if (isAnswer(item, row, option)) state.answers[item][row] = option;
      }
    });
  },
  entries: () => rows.flatMap((ofItem, item) => ofItem.flatMap((row, number) => {
    const option = state.answers[item][number];
    if (option === undefined) return [];
    const place = {item: item + 1, aspect: row.aspect.name};
    return [isRating ? {...place, text: row.text, rating: option + 1}
      : {...place, choice: row.choice, text: row.options[option]}];
  })),
  line: (a) => [a.item, a.aspect, a.text, a.rating ?? a.choice].join('\t'),
  load(saved) {
    for (const {item, aspect, text, rating, choice} of saved.answers) {
      const number = rows[item - 1]?.findIndex((row) => row.aspect.name === aspect
        && (isRating ? row.text === text : row.choice === choice));
      const option = isRating ? rating - 1 : LETTERS.indexOf(text);
      if (isAnswer(item - 1, number, option)) state.answers[item - 1][number] = option;
    }
  },
};

document.addEventListener('keydown', onKey);
begin();
