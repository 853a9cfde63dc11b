// One open notebook: its marks, its file, and what happens to them.

import { Badges, element } from './badges.js';
import { isOurs, Sync } from './sync.js';

const AGAIN = 1000;
const LOOK = 10000;
const NOTICE = 8000;
// A long notebook is put on the page bit by bit; how long a cell is waited for, and how often.
const ARRIVAL = 60000;
const STEP = 100;

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

export class Watched {
  constructor(panel, { api, contents, equal, changed }) {
    this.panel = panel;
    this.status = null;
    this.replay = null;
    this.busy = false;
    this._api = api;
    this._changed = changed;
    this._badges = new Badges(panel.content);
    this._listening = null;
    this._refused = false;
    this._looking = null;
    this._again = false;
    this._sync = new Sync(panel.context, contents, equal, {
      merged: ids => this._merged(ids),
      saved: () => this.look()
    });
    this._notice = null;
    this._going = null;
    this._refresh = () => this._badges.refresh();
    this._wake = () => this.wake();
    panel.content.model.cells.changed.connect(this._refresh);
    panel.content.modelContentChanged.connect(this._wake);
    // What is heard is of the place where the notebook was when the listening began.
    panel.context.pathChanged.connect(() => void this.restart());
    document.addEventListener('visibilitychange', this._wake);
    window.addEventListener('focus', this._wake);
    this._timer = setInterval(() => this.seen && void this.look(), LOOK);
    panel.disposed.connect(() => this.dispose());
    this.wake();
  }

  get path() {
    return this.panel.context.localPath;
  }

  get ours() {
    return !this.panel.isDisposed && isOurs(this.panel.context.model);
  }

  /** Tell whether somebody can see it: a browser keeps few connections, so the others wait. */
  get seen() {
    return !this.panel.isDisposed && this.panel.isVisible && !document.hidden;
  }

  dispose() {
    clearInterval(this._timer);
    document.removeEventListener('visibilitychange', this._wake);
    window.removeEventListener('focus', this._wake);
    this._listening?.abort();
    this._sync.dispose();
  }

  /** Listen while it is seen, and not otherwise. */
  wake() {
    if (!this.seen || !this.ours) {
      this._listening?.abort();
      this._listening = null;
    } else if (!this._listening && !this._refused) {
      this._listening = new AbortController();
      void this._listen(this._listening);
    }
  }

  /** Ask how the cells stand; however often that is wanted meanwhile, once more is enough. */
  look() {
    if (this._looking) {
      this._again = true;
      return this._looking;
    }
    this._looking = this._look().finally(() => {
      this._looking = null;
      if (this._again) {
        this._again = false;
        void this.look();
      }
    });
    return this._looking;
  }

  /** Show how the cells stand, and take in what the file has and the buffer has not. */
  async _look() {
    if (!this.ours) {
      return;
    }
    try {
      const status = await this._api.status(this.path);
      this.status = status;
      if (this._refused) {
        this._refused = false;
        this.wake();
      }
      if (!this.replay) {
        this._badges.show(status.cells || []);
      }
      this._changed(this);
      await this._sync.catchUp(status.appended || 0);
    } catch (error) {
      // Without the server's side, or while it is away, the notebook is an ordinary one.
      console.debug('rlmnb:', error.message);
      if (error.status === 404 && !this.panel.isDisposed) {
        // Moved away from its session, or deleted: what was known of its cells holds no more.
        this.status = null;
        this._badges.clear();
        this._changed(this);
      }
    }
  }

  /** Begin anew: a notebook that was nobody's may be a session now. */
  async restart() {
    this._listening?.abort();
    this._listening = null;
    this._refused = false;
    this.wake();
    await this.look();
  }

  /** Show how far a replay is with a cell. */
  turn(id, state) {
    this._badges.turn(id, state);
  }

  /** Go to a cell as if it had been clicked on. */
  async go(id) {
    const notebook = this.panel.content;
    const at = notebook.widgets.findIndex(cell => cell.model.id === id);
    if (at < 0) {
      return;
    }
    const cell = notebook.widgets[at];
    notebook.mode = 'command';
    notebook.deselectAll();
    notebook.activeCellIndex = at;
    this._going = id;
    await this._scrollTo(cell);
    cell.node.classList.add('rlmnb-found');
    setTimeout(() => cell.node.classList.remove('rlmnb-found'), 1200);
  }

  /** Bring a cell into view, once it is there, unless another is wanted by then. */
  async _scrollTo(cell) {
    const notebook = this.panel.content;
    const id = cell.model.id;
    const end = Date.now() + ARRIVAL;
    while (this._going === id && !notebook.isDisposed && !cell.isDisposed && Date.now() < end) {
      // What is wanted meanwhile calls this off; it is no failure.
      await notebook.scrollToItem(notebook.widgets.indexOf(cell), 'smart').catch(() => {});
      if (cell.node.isConnected) {
        return;
      }
      await pause(STEP);
    }
  }

  /** Write the buffer to disk if it has anything to say. */
  async save() {
    if (this.panel.context.model.dirty) {
      await this.panel.context.save();
    }
  }

  async _listen(control) {
    while (!control.signal.aborted && this.ours) {
      await this.look();
      try {
        for await (const _ of this._api.changes(this.path, control.signal)) {
          void this.look();
        }
      } catch (error) {
        if (error.status === 404 || error.status === 403) {
          // Nothing to hear of, yet: the looks go on, and the first that is answered listens again.
          if (this._listening === control) {
            this._listening = null;
            this._refused = true;
          }
          return;
        }
      }
      await pause(AGAIN);
    }
  }

  _merged(ids) {
    this._badges.refresh();
    if (ids.length) {
      this._tell(ids);
    }
  }

  /** Say quietly that there are cells further down. */
  _tell(ids) {
    const total = ids.length + (this._notice ? this._notice.count : 0);
    const first = this._notice ? this._notice.first : ids[0];
    this._hush();
    const note = element('button', 'rlmnb-news', `${total} new cell${total === 1 ? '' : 's'} ↓`);
    note.type = 'button';
    note.setAttribute('aria-live', 'polite');
    note.addEventListener('mousedown', event => event.preventDefault());
    note.addEventListener('click', () => {
      this._hush();
      void this.go(first);
    });
    this.panel.node.appendChild(note);
    const timer = setTimeout(() => this._hush(), NOTICE);
    this._notice = { note, timer, first, count: total };
  }

  _hush() {
    if (this._notice) {
      clearTimeout(this._notice.timer);
      this._notice.note.remove();
      this._notice = null;
    }
  }
}
