'use strict';
// What all pages share: elements, what the browser keeps, and files.

const find = (id) => document.getElementById(id);

// What does nothing without a script is hidden until there is one.
for (const part of document.querySelectorAll('header [hidden], nav')) part.hidden = false;

// What the page shows, as Python wrote it.
const content = () => JSON.parse(find('study').textContent);

function make(tag, props, ...children) {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children);
  return element;
}

function textOf(text, lang, dir) {
  const isEmpty = !text.trim();
  const name = `text${isEmpty ? ' empty' : ''}${text.length > 900 ? ' long' : ''}`;
  const props = {className: name, lang: isEmpty ? 'en' : lang, dir: isEmpty ? 'ltr' : dir};
  if (text.length > 900) props.tabIndex = 0;  // It scrolls, by keyboard too.
  return make('p', props, isEmpty ? 'The text is empty.' : text);
}

// Keeps a state under a key; false if the browser refuses.
function keepInBrowser(key, state) {
  try {
    localStorage.setItem(key, JSON.stringify(state));
    return true;
  } catch {
    return false;
  }
}

function warn(keeps, what) {
  find('warning').hidden = keeps;
  if (!keeps) {
    find('warning').textContent =
      `This browser does not keep your ${what}. Save them before you close the page.`;
  }
}

function crc32(text) {
  let crc = ~0;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return (~crc >>> 0).toString(16).padStart(8, '0');
}

function saveFile(name, value) {
  const text = `${JSON.stringify(value, null, 1)}\n`;
  const url = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  make('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
