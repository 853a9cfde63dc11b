// Bring what is on disk into an open notebook without touching what the person did to it.
//
// Three sides, cell by cell: `base` is what buffer and disk last had in common, `mine` the buffer,
// `theirs` the disk. Whatever the person left as it was becomes what the disk says; whatever they
// changed stays theirs. A cell that was changed on both sides, in two windows say, stays as it is in
// the buffer, with the other text in a note below. Nothing is replaced as a whole, so the cursor, the
// scroll position, the kernel and the undo history stay.

const joined = value => (Array.isArray(value) ? value.join('') : value);

const isJson = type => type === 'application/json' || type.endsWith('+json');

function plainOutput(output) {
  const { transient: _, ...kept } = output;
  const plain = { ...kept };
  if ('text' in plain) {
    plain.text = joined(plain.text);
  }
  if (plain.data) {
    plain.data = Object.fromEntries(
      Object.entries(plain.data).map(([type, value]) => [type, isJson(type) ? value : joined(value)])
    );
  }
  return plain;
}

/** Return a cell in the one form in which two of them can be compared. */
export function plainCell(cell) {
  const { trusted: _, ...metadata } = cell.metadata || {};
  const plain = { type: cell.cell_type, source: joined(cell.source) ?? '', metadata };
  if (cell.cell_type === 'code') {
    plain.outputs = (cell.outputs || []).map(plainOutput);
    plain.count = cell.execution_count ?? null;
  } else {
    plain.attachments = cell.attachments || {};
  }
  return plain;
}

/** Return what a notebook holds, by cell, as a side of a merge. */
export function sideOf(content) {
  const cells = new Map();
  for (const cell of content.cells || []) {
    if (!cells.has(cell.id)) {
      cells.set(cell.id, plainCell(cell));
    }
  }
  return { cells, metadata: content.metadata || {} };
}

/** Return the keys to set and to delete, given that only untouched ones may change. */
function keysToChange(base, mine, theirs, equal) {
  const changes = [];
  for (const key of new Set([...Object.keys(mine), ...Object.keys(theirs)])) {
    const untouched = key === 'rlmnb' || equal(mine[key] ?? null, base[key] ?? null);
    if (key !== 'trusted' && untouched && !equal(mine[key] ?? null, theirs[key] ?? null)) {
      changes.push([key, theirs[key]]);
    }
  }
  return changes;
}

function cellChange(id, base, mine, theirs, equal) {
  const was = base || mine;
  const change = { id, keys: keysToChange(was.metadata, mine.metadata, theirs.metadata, equal) };
  if (mine.source === was.source && theirs.source !== mine.source) {
    change.source = theirs.source;
  }
  if (mine.outputs && equal(mine.outputs, was.outputs) && !equal(mine.outputs, theirs.outputs)) {
    change.outputs = true;
  }
  if (mine.outputs && mine.count === was.count && theirs.count !== mine.count) {
    change.count = true;
  }
  const any = change.keys.length || 'source' in change || change.outputs || change.count;
  return any ? change : null;
}

/** Tell whether somebody else wrote another text into a cell than the person did. */
function isContested(id, base, mine, theirs, sent) {
  const [was, here, there] = [base, mine, theirs].map(side => side.cells.get(id).source);
  return there !== was && here !== was && here !== there && there !== sent?.cells.get(id)?.source;
}

/** Say what has to happen to the buffer: `{insert, remove, change, note, keys}`.
 *
 * `sent` is what this window last tried to save: found on disk, it is nobody else's.
 */
export function planned(base, mine, theirs, equal, sent = null) {
  const plan = { insert: [], remove: [], change: [], note: [] };
  for (const [id, cell] of mine.cells) {
    const known = base.cells.get(id);
    const now = theirs.cells.get(id);
    if (now && now.type === cell.type) {
      const change = cellChange(id, known, cell, now, equal);
      if (change) {
        plan.change.push(change);
      }
      if (known && isContested(id, base, mine, theirs, sent)) {
        plan.note.push({ after: id, text: noteOf(now) });
      }
    } else if (known && cell.source === known.source && !now) {
      plan.remove.push(id);
    }
  }
  let after = null;
  for (const id of theirs.cells.keys()) {
    // One that was known and is not in the buffer was deleted there: it stays deleted, unless
    // somebody has edited it since.
    if (!mine.cells.has(id) && base.cells.get(id)?.source !== theirs.cells.get(id).source) {
      plan.insert.push({ id, after });
    }
    after = id;
  }
  plan.keys = keysToChange(base.metadata, mine.metadata, theirs.metadata, equal);
  return plan;
}

/** Return the text that a cell has on the other side, as markdown: it must not run. */
function noteOf(cell) {
  const ticks = (cell.source.match(/`+/g) || []).map(run => run.length);
  const fence = '`'.repeat(Math.max(3, ...ticks.map(length => length + 1)));
  const words = '*The cell above was edited elsewhere at the same time. There it says:*';
  return `${words}\n\n${fence}${cell.type === 'code' ? 'python' : ''}\n${cell.source}\n${fence}`;
}

/** Return where a new cell goes: below its neighbour, and below what the person put there. */
function placeFor(after, ids, theirs) {
  let at = after === null ? 0 : ids.indexOf(after) + 1;
  if (at === 0 && after !== null) {
    return ids.length;
  }
  while (at < ids.length && !theirs.cells.has(ids[at])) {
    at += 1;
  }
  return at;
}

function changeCell(shared, change, cell) {
  if ('source' in change) {
    shared.setSource(change.source);
  }
  if (change.count) {
    shared.execution_count = cell.execution_count ?? null;
  }
  for (const [key, value] of change.keys) {
    if (value === undefined) {
      shared.deleteMetadata(key);
    } else {
      shared.setMetadata(key, value);
    }
  }
}

/** Put notes below their cells; one that says what was there before says what is there now. */
function putNotes(plan, shared, ids, notes) {
  for (const { after, text } of plan.note) {
    const known = notes.get(after);
    const at = known ? ids.indexOf(known.id) : -1;
    if (at >= 0 && shared.cells[at].getSource() === known.text) {
      shared.cells[at].setSource(text);
      notes.set(after, { id: known.id, text });
    } else {
      const below = ids.indexOf(after) + 1;
      const made = shared.insertCell(below, { cell_type: 'markdown', metadata: {}, source: text });
      ids.splice(below, 0, made.getId());
      notes.set(after, { id: made.getId(), text });
    }
  }
}

/** Carry a plan out on a notebook's model, in one step that undo does not see.
 *
 * `notes` remembers, by cell, the notes that were made before.
 */
export function applied(plan, model, content, notes = new Map()) {
  const shared = model.sharedModel;
  const theirs = sideOf(content);
  const onDisk = new Map(content.cells.map(cell => [cell.id, cell]));
  const ids = shared.cells.map(cell => cell.getId());
  shared.transact(() => {
    for (const change of plan.change) {
      changeCell(shared.cells[ids.indexOf(change.id)], change, onDisk.get(change.id));
    }
    for (const id of plan.remove) {
      const at = ids.indexOf(id);
      shared.deleteCell(at);
      ids.splice(at, 1);
    }
    for (const { id, after } of plan.insert) {
      const at = placeFor(after, ids, theirs);
      shared.insertCell(at, onDisk.get(id));
      ids.splice(at, 0, id);
    }
    putNotes(plan, shared, ids, notes);
    for (const [key, value] of plan.keys) {
      if (value === undefined) {
        shared.deleteMetadata(key);
      } else {
        shared.setMetadata(key, value);
      }
    }
  }, false);
  showOutputs(plan, model, onDisk);
}

/** Give cells the outputs on disk; the shared model would put a new stream behind the old one. */
function showOutputs(plan, model, onDisk) {
  const changed = new Set(plan.change.filter(change => change.outputs).map(({ id }) => id));
  for (let at = 0; changed.size && at < model.cells.length; at += 1) {
    const cell = model.cells.get(at);
    if (changed.has(cell.id)) {
      const { metadata, outputs } = onDisk.get(cell.id);
      // The server says what was made here; what these cells showed before does not count.
      cell.trusted = Boolean(metadata && metadata.trusted);
      cell.outputs.fromJSON(outputs || []);
    }
  }
}
