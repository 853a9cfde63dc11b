// A mark beside each code cell: how it stands, by shape and colour, and in words.

const SVG = 'http://www.w3.org/2000/svg';

const SHAPES = {
  fresh: 'M3 8.5 L6.5 12 L13 4.5',
  stale: 'M12.9 9.4 A5.2 5.2 0 1 1 12.3 5.2 M12.6 1.8 L12.6 5.6 L8.8 5.6',
  failed: 'M4 4 L12 12 M12 4 L4 12',
  running: 'M8 2.5 A5.5 5.5 0 1 1 2.5 8',
  never: 'M8 3 A5 5 0 1 1 7.99 3 z'
};

const WORDS = {
  fresh: 'fresh',
  stale: 'stale',
  failed: 'failed',
  running: 'running',
  never: 'never run'
};

const EFFECTS = 'changes things outside the notebook; replayed only where effects are allowed';

export const counted = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;

/** Return an element with text that is text, whatever it says. */
export function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) {
    made.textContent = text;
  }
  return made;
}

/** Return the sign of a state, drawn in the colour of its surroundings. */
export function sign(state) {
  const drawn = document.createElementNS(SVG, 'svg');
  drawn.setAttribute('viewBox', '0 0 16 16');
  drawn.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', SHAPES[state] || SHAPES.never);
  drawn.appendChild(path);
  return drawn;
}

/** Say how a cell stands, whole, for a tooltip and for those who do not see the mark. */
export function spoken(cell) {
  const parts = [`${cell.number ? `#${cell.number} ` : ''}${WORDS[cell.state]}`];
  if (cell.causes.length) {
    parts[0] += `: ${cell.causes.join('; ')}`;
  }
  if (cell.calls) {
    parts.push(kept(cell));
  }
  if (cell.effectful) {
    parts.push(EFFECTS);
  }
  return parts.join('\n');
}

function kept(cell) {
  const calls = counted(cell.calls, 'model call');
  const saved = cell.tokens_saved ? `, ${counted(cell.tokens_saved, 'token')} saved` : '';
  return cell.state === 'fresh' ? `${calls} kept${saved}` : calls;
}

/** Call cells by their place, as the graph does: an id means nothing to a person. */
export function placed(text, numbers) {
  return text.replace(/\bcell_[a-z0-9]{8}\b/g, id => (numbers.has(id) ? `#${numbers.get(id)}` : id));
}

function known(told, numbers = new Map()) {
  const state = String(told.state || 'never');
  return {
    state: Object.hasOwn(SHAPES, state) ? state : 'never',
    number: Number(told.number) || 0,
    causes: (told.causes || []).map(cause => placed(String(cause), numbers)),
    effectful: Boolean(told.effectful),
    calls: Number(told.calls) || 0,
    tokens_saved: Number(told.tokens_saved) || 0
  };
}

/** Let Enter and Space press a mark that has the focus; Lab would take them for the cell. */
export function letMarksBePressed() {
  const keep = event => {
    if (['Enter', ' '].includes(event.key) && event.target.closest?.('.rlmnb-mark')) {
      event.stopPropagation();
    }
  };
  window.addEventListener('keydown', keep, true);
}

/** The marks of one notebook. */
export class Badges {
  constructor(notebook) {
    this._notebook = notebook;
    this._cells = new Map();
  }

  /** Show what the server found. */
  show(cells) {
    const numbers = new Map(cells.map(cell => [cell.cell_id, Number(cell.number) || 0]));
    this._cells = new Map(cells.map(cell => [cell.cell_id, known(cell, numbers)]));
    this.refresh();
  }

  /** Show how far a replay is with one cell. */
  turn(id, state) {
    const before = this._cells.get(id) || known({});
    this._cells.set(id, { ...before, causes: [], state: known({ state }).state });
    this.refresh();
  }

  /** Put the marks where the cells are now; only what differs is touched. */
  refresh() {
    for (const widget of this._notebook.widgets) {
      const cell = widget.model.type === 'code' ? this._cells.get(widget.model.id) : undefined;
      const said = cell ? JSON.stringify(cell) : '';
      if ((widget.node.dataset.rlmnbSaid || '') !== said) {
        this._clear(widget.node);
        if (cell) {
          this._mark(widget.node, cell);
        }
        widget.node.dataset.rlmnbSaid = said;
      }
    }
  }

  clear() {
    this.show([]);
  }

  _clear(node) {
    delete node.dataset.rlmnbState;
    node.querySelectorAll(':scope > .rlmnb-mark, :scope > .rlmnb-note').forEach(old => old.remove());
  }

  _mark(node, cell) {
    node.dataset.rlmnbState = cell.state;
    const mark = element('button', `rlmnb-mark rlmnb-${cell.state}`);
    mark.type = 'button';
    mark.title = spoken(cell);
    mark.setAttribute('aria-label', spoken(cell));
    mark.appendChild(sign(cell.state));
    node.appendChild(mark);
    const note = this._note(cell);
    if (note) {
      node.appendChild(note);
      mark.setAttribute('aria-expanded', 'false');
      mark.addEventListener('click', () => {
        const open = note.classList.toggle('rlmnb-open');
        mark.setAttribute('aria-expanded', String(open));
      });
    }
  }

  /** Return the line below a cell of which there is something to say. */
  _note(cell) {
    const note = element('div', 'rlmnb-note');
    note.title = spoken(cell);
    if (cell.state === 'stale' || cell.state === 'failed') {
      const why = element('span', `rlmnb-chip rlmnb-${cell.state}`, WORDS[cell.state]);
      note.append(why, element('span', 'rlmnb-why', cell.causes.join('; ')));
    }
    if (cell.calls) {
      note.append(element('span', 'rlmnb-chip rlmnb-kept', kept(cell)));
    }
    if (cell.effectful) {
      note.append(element('span', 'rlmnb-chip rlmnb-effects', 'effects'));
    }
    return note.childNodes.length ? note : null;
  }
}
