// Keep one open notebook in step with its file, which an agent appends to and a replay rewrites.

import { applied, planned, sideOf } from './merge.js';

// A save that has not ended by now was called off without a word.
const LONGEST_SAVE = 60000;

/** Tell whether a notebook has anything to do with rlmnb. */
export function isOurs(model) {
  if (!model) {
    return false;
  }
  return Boolean(
    model.getMetadata('rlmnb') || (model.getMetadata('kernelspec') || {}).name === 'rlmnb'
  );
}

export class Sync {
  constructor(context, contents, equal, { merged, saved }) {
    this._context = context;
    this._contents = contents;
    this._equal = equal;
    this._merged = merged;
    this._saved = saved;
    this._base = sideOf(context.model.toJSON());
    this._sent = null;
    this._sentAt = 0;
    this._lastSent = null;
    this._notes = new Map();
    this._taking = false;
    this._running = null;
    this._again = false;
    context.saveState.connect(this._onSave, this);
    context.fileChanged.connect(this._onFile, this);
    this._takeOverConflicts();
  }

  /** Tell whether the server keeps the notebook as a live document, and nothing is to be done. */
  get live() {
    return Boolean(this._context.model.collaborative);
  }

  /** Tell which of the agent's cells the buffer has taken in. */
  get appended() {
    return (this._context.model.getMetadata('rlmnb') || {}).appended || 0;
  }

  dispose() {
    this._context.saveState.disconnect(this._onSave, this);
    this._context.fileChanged.disconnect(this._onFile, this);
    this._context = null;
  }

  get _saving() {
    return this._sent !== null && Date.now() - this._sentAt < LONGEST_SAVE;
  }

  /** Take in what is on disk, if it is not what the buffer knows; one at a time. */
  catchUp(appended = 0) {
    if (this._running) {
      this._again = true;
      return this._running;
    }
    this._running = this._catchUp(appended).finally(() => {
      this._running = null;
      if (this._again && this._context) {
        this._again = false;
        void this.catchUp(appended);
      }
    });
    return this._running;
  }

  async _catchUp(appended) {
    const context = this._context;
    if (!context || this.live || this._saving || !isOurs(context.model)) {
      return;
    }
    const known = context.contentsModel || {};
    const seen = await this._contents.get(context.path, { content: false, hash: true });
    const same = seen.hash ? seen.hash === known.hash : seen.last_modified === known.last_modified;
    if (same && appended <= this.appended) {
      return;
    }
    const disk = await this._onDisk();
    // A save that began meanwhile has its own way of taking the disk in.
    if (this._context && !this._saving) {
      this._takeIn(disk);
    }
  }

  _onDisk() {
    return this._contents.get(this._context.path, {
      type: 'notebook',
      format: 'json',
      content: true,
      hash: true
    });
  }

  _takeIn(disk) {
    const { model } = this._context;
    const mine = sideOf(model.toJSON());
    const theirs = sideOf(disk.content);
    const plan = planned(this._base, mine, theirs, this._equal, this._lastSent);
    applied(plan, model, disk.content, this._notes);
    this._base = theirs;
    this._taking = true;
    // Without this, Lab's next save would find another file than it knows, and ask.
    this._context._updateContentsModel?.(disk);
    this._taking = false;
    const now = model.toJSON();
    model.dirty = !this._equal(comparable(sideOf(now)), comparable(theirs));
    const notes = plan.note.map(({ after }) => this._notes.get(after));
    this._merged([...plan.insert, ...notes].map(({ id }) => id));
  }

  /** After somebody else's revert, buffer and disk have everything in common. */
  _onFile() {
    if (!this.live && !this._taking && !this._saving) {
      this._base = sideOf(this._context.model.toJSON());
    }
  }

  /** Notice what a save sends; what is typed while it is under way is not saved by it. */
  _onSave(_, state) {
    if (this.live) {
      if (state.startsWith('completed')) {
        this._saved();
      }
    } else if (state === 'started') {
      this._sending(this._context.model.toJSON());
    } else if (this._sent) {
      const sent = this._sent;
      this._sent = null;
      if (state.startsWith('completed')) {
        this._base = sent;
        const now = sideOf(this._context.model.toJSON());
        if (!this._equal(comparable(now), comparable(sent))) {
          this._context.model.dirty = true;
        }
        this._saved();
      }
    }
  }

  _sending(content) {
    this._sent = this._lastSent = sideOf(content);
    this._sentAt = Date.now();
  }

  /** Where Lab would ask whether to overwrite or revert, do neither: put both sides together. */
  _takeOverConflicts() {
    const context = this._context;
    const ask = context._raiseConflict;
    if (typeof ask !== 'function') {
      // A Lab that asks in another way goes on asking; the server keeps both sides anyway.
      return;
    }
    context._raiseConflict = async (model, options) => {
      if (!this._context || this.live || !isOurs(context.model)) {
        return ask.call(context, model, options);
      }
      return this._saveBoth(options);
    };
  }

  async _saveBoth(options) {
    this._takeIn(await this._onDisk());
    const content = this._context.model.toJSON();
    this._sending(content);
    const { path } = this._context;
    const saved = await this._contents.save(path, { ...options, content });
    const seen = await this._contents.get(path, { content: false, hash: true });
    return { ...saved, hash: seen.hash, hash_algorithm: seen.hash_algorithm };
  }
}

function comparable(side) {
  return { order: [...side.cells.keys()], cells: Object.fromEntries(side.cells), m: side.metadata };
}
