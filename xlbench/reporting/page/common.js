'use strict';
// What pages share: elements, files, and what the browser keeps. It stands before a page's own script.

const find = (id) => document.getElementById(id);

function make(tag, props, ...children) {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children);
  return element;
}

function saveFile(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  make('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// A browser may refuse to keep anything, as it does for files; then it is kept for the visit alone.
function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

// Whether the browser keeps it.
function store(key, value) {
  try {
    localStorage.setItem(key, value);
    return true;
  } catch {
    return false;
  }
}
