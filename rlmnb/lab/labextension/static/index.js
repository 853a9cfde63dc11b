// The plugin: commands, toolbar, status bar and the panel, for whichever notebook is in front.

import { Api } from './api.js';
import { counted, element, letMarksBePressed, placed } from './badges.js';
import { makePanel, planView } from './graph.js';
import { Watched } from './watched.js';

const CATEGORY = 'rlmnb';

const COMMANDS = {
  stale: 'rlmnb:replay-stale',
  cell: 'rlmnb:replay-cell',
  effects: 'rlmnb:replay-with-effects',
  plan: 'rlmnb:dry-run',
  graph: 'rlmnb:graph',
  stop: 'rlmnb:stop'
};

function summary(status) {
  const { stale = 0, failed = 0, fresh = 0, tokens_saved: saved = 0 } = status?.summary || {};
  // Most cells that failed are stale, and counted there.
  const both = (status?.cells || []).filter(cell => cell.state === 'failed' && cell.causes.length).length;
  const parts = [stale ? `${stale} stale` : failed ? '' : `${fresh} fresh`];
  parts.push(both ? `${both} of them failed` : '', failed > both ? `${failed - both} failed` : '');
  parts.push(saved ? `${counted(saved, 'token')} saved` : '');
  return parts.filter(Boolean).join(', ');
}

function outcome(report) {
  const parts = [`${(report.executed || []).length} ran`, `${(report.reused || []).length} reused`];
  for (const word of ['failed', 'skipped']) {
    if ((report[word] || []).length) {
      parts.push(`${report[word].length} ${word}`);
    }
  }
  return parts.join(', ');
}

class Desk {
  constructor(app, jupyter, tracker, labShell) {
    this.app = app;
    this.jupyter = jupyter;
    this.tracker = tracker;
    this.labShell = labShell;
    this.api = new Api(jupyter.services, jupyter.coreutils);
    this.watched = new Map();
    this.panel = null;
    this.status = null;
    tracker.widgetAdded.connect((_, panel) => void this._watch(panel));
    tracker.forEach(panel => void this._watch(panel));
    tracker.currentChanged.connect(() => this._front());
    app.shell.currentChanged?.connect(() => this._wakeAll());
    app.shell.layoutModified?.connect(() => this._wakeAll());
  }

  get current() {
    const panel = this.tracker.currentWidget;
    return (panel && this.watched.get(panel)) || null;
  }

  /** Tell whether the panel of this id has a notebook of ours. */
  isOurs(id) {
    return [...this.watched.values()].some(each => each.panel.id === id && each.ours);
  }

  async _watch(panel) {
    await panel.context.ready;
    if (panel.isDisposed || this.watched.has(panel)) {
      return;
    }
    const watched = new Watched(panel, {
      api: this.api,
      contents: this.app.serviceManager.contents,
      equal: this.jupyter.json.JSONExt.deepEqual,
      changed: one => one === this.current && this._show()
    });
    this.watched.set(panel, watched);
    panel.disposed.connect(() => this.watched.delete(panel));
    this._addButtons(panel, watched);
    this._front();
  }

  _wakeAll() {
    this.watched.forEach(watched => watched.wake());
  }

  _front() {
    this._wakeAll();
    this._commandsChanged();
    this._show();
    void this.current?.look();
  }

  _addButtons(panel, watched) {
    const { CommandToolbarButton } = this.jupyter.ui;
    for (const key of ['graph', 'plan', 'cell', 'stale']) {
      const id = COMMANDS[key];
      // One label says what this is about; the others are told by their tooltips.
      const label = key === 'stale' ? undefined : '';
      const args = { panel: panel.id };
      const button = new CommandToolbarButton({ commands: this.app.commands, id, label, args });
      button.addClass('rlmnb-tool');
      panel.toolbar.insertAfter('cellType', id, button) || panel.toolbar.addItem(id, button);
      const hide = () => button.setHidden(!watched.ours);
      hide();
      panel.content.modelContentChanged.connect(hide);
    }
  }

  _show() {
    const current = this.current;
    this.status?.show(current?.ours ? current.status : null);
    if (this.panel?.widget.isVisible) {
      void this._draw();
    }
  }

  // what the commands do

  async replay(wishes) {
    const watched = this.current;
    if (!watched || watched.busy) {
      return;
    }
    // Before anything is waited for: the second half of a double click comes at once.
    watched.busy = true;
    this._commandsChanged();
    // What a dry run said of the time before it would stand there as if it still held.
    this.panel?.showPlan(null);
    const { Notification } = this.jupyter.apputils;
    try {
      await watched.save();
      const { id } = await this.api.replay(watched.path, wishes);
      watched.replay = id;
      this._commandsChanged();
      const report = await this._follow(watched, id);
      const left = (report.skipped || []).length || (report.failed || []).length;
      Notification.emit(`Replay: ${outcome(report)}`, left ? 'warning' : 'success', {
        autoClose: 4000
      });
    } finally {
      watched.replay = null;
      watched.busy = false;
      this._commandsChanged();
      await watched.restart();
    }
  }

  /** Do what a command says; what goes wrong is told to whoever gave it. */
  async attempt(name, work) {
    try {
      await work();
    } catch (error) {
      const hint = error.hint ? ` — ${error.hint}` : '';
      const { Notification } = this.jupyter.apputils;
      Notification.error(`${name}: ${error.message}${hint}`, { autoClose: false });
    }
  }

  async _follow(watched, id) {
    for await (const [name, data] of this.api.progress(id)) {
      if (name === 'progress' && data.cell_id) {
        watched.turn(data.cell_id, data.state);
      } else if (name === 'done') {
        return data.report || data;
      } else if (name === 'error') {
        throw Object.assign(new Error(data.message), { hint: data.hint });
      }
    }
    throw new Error('the server went away before it was done');
  }

  async dryRun() {
    const watched = this.current;
    await watched.save();
    const plan = await this.api.plan(watched.path);
    this.open();
    this.panel.showPlan(planView(this._named(plan, watched), id => watched.go(id)));
  }

  /** Give each step the words that a person knows its cell by. */
  _named(plan, watched) {
    const cells = new Map(
      watched.panel.content.widgets.map((cell, at) => [
        cell.model.id,
        `#${at + 1}  ${cell.model.sharedModel.getSource().trim().split('\n')[0].slice(0, 60)}`
      ])
    );
    const numbers = new Map([...cells.keys()].map((id, at) => [id, at + 1]));
    const words = texts => (texts || []).map(text => placed(String(text), numbers));
    const name = steps =>
      (steps || []).map(one => ({ ...one, label: cells.get(one.cell_id), causes: words(one.causes) }));
    return { would_execute: name(plan.would_execute), would_skip: name(plan.would_skip) };
  }

  open() {
    if (!this.panel) {
      this.panel = makePanel(this.jupyter);
      this.panel.widget.disposed.connect(() => {
        this.panel = null;
      });
    }
    const { widget } = this.panel;
    if (!widget.isAttached) {
      // Lab can split its main area; Notebook 7 has one document and a sidebar.
      if (this.labShell) {
        const ref = this.tracker.currentWidget?.id;
        this.app.shell.add(widget, 'main', { mode: 'split-right', ref, activate: false });
      } else {
        this.app.shell.add(widget, 'right');
      }
    }
    if (!this.labShell) {
      this.app.shell.activateById(widget.id);
    }
    void this._draw();
  }

  async _draw() {
    const watched = this.current;
    if (!this.panel) {
      return;
    }
    if (!watched) {
      this.panel.clear('Open a notebook to see its graph.');
      return;
    }
    if (this._drawn !== watched) {
      this.panel.showPlan(null);
      this._drawn = watched;
    }
    try {
      const graph = await this.api.graph(watched.path);
      if (this.panel && this.current === watched) {
        this.panel.say(`${watched.panel.title.label}: ${summary(watched.status) || 'no cells'}`);
        this.panel.showGraph(graph, id => void watched.go(id));
      }
    } catch (error) {
      this.panel?.clear(`${error.message} ${error.hint || ''}`);
    }
  }

  async stop() {
    await this.api.stop(this.current.replay);
  }

  async replayWithEffects() {
    const { Dialog, showDialog } = this.jupyter.apputils;
    const watched = this.current;
    await watched.save();
    const plan = await this.api.plan(watched.path);
    const steps = [...(plan.would_execute || []), ...(plan.would_skip || [])];
    const effectful = steps.filter(one => (one.effects || []).length);
    if (!effectful.length) {
      // Nothing to ask about, and nothing to allow.
      await this.replay({});
      return;
    }
    const { would_execute: named } = this._named({ would_execute: effectful }, watched);
    const body = new this.jupyter.widgets.Widget();
    body.node.append(
      ...named.map(one => element('div', 'rlmnb-asked', one.label || one.cell_id)),
      element('p', '', `${counted(named.length, 'cell')} would change things outside the notebook.`)
    );
    const label = named.length === 1 ? 'Replay it' : 'Replay them';
    const buttons = [Dialog.cancelButton(), Dialog.warnButton({ label })];
    // Enter, pressed in passing, allows nothing.
    const asked = { title: 'Replay with effects?', body, buttons, defaultButton: 0 };
    const chosen = await showDialog(asked);
    if (chosen.button.accept) {
      await this.replay({ allow_effects: true });
    }
  }

  _commandsChanged() {
    Object.values(COMMANDS).forEach(id => this.app.commands.notifyCommandChanged(id));
  }
}

function iconsOf({ LabIcon }) {
  const svg = path =>
    `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">${path}</g></svg>`;
  const icon = (name, path) => new LabIcon({ name: `rlmnb:${name}`, svgstr: svg(path) });
  return {
    stale: icon('stale', '<path d="M4 5v6l6-3zM12 5v6l6-3zM4 19h16v-2H4zM4 15h10v-2H4z"/>'),
    cell: icon('cell', '<path d="M5 4v7l7-3.5zM14 7h6v2h-6zM4 14h16v6H4zm2 2v2h12v-2z"/>'),
    plan: icon('plan', '<path d="M4 5h3v3H4zm5 .5h11v2H9zM4 10.5h3v3H4zm5 .5h11v2H9zM4 16h3v3H4zm5 .5h11v2H9z"/>'),
    graph: icon('graph', '<path d="M9 3h6v5h-2v3h6v5h2v5h-6v-5h2v-3H7v3h2v5H3v-5h2v-5h6V8H9z"/>')
  };
}

function addCommands(desk) {
  const { app, jupyter } = desk;
  const icons = iconsOf(jupyter.ui);
  const idle = () => Boolean(desk.current) && !desk.current.busy;
  const there = () => Boolean(desk.current);
  const activeCell = () => desk.current.panel.content.activeCell?.model.id;
  const all = {
    stale: ['Replay stale', 'run the cells whose inputs changed, and reuse the rest', idle, () => desk.replay({})],
    cell: ['Replay this cell', 'bring this cell up to date, and what it needs', idle, () => desk.replay({ selector: activeCell() })],
    effects: ['Replay stale, with effects…', 'also run cells that change things outside the notebook', idle, () => desk.replayWithEffects()],
    plan: ['Dry run', 'say what a replay would run, and why', idle, () => desk.dryRun()],
    graph: ['Graph', 'show what the cells need from one another', there, () => desk.open()],
    stop: ['Stop the replay', 'interrupt it; what is done is kept', () => Boolean(desk.current?.replay), () => desk.stop()]
  };
  for (const [key, [label, caption, isEnabled, execute]] of Object.entries(all)) {
    app.commands.addCommand(COMMANDS[key], {
      label,
      caption: `${label}: ${caption}`,
      icon: args => (args.isPalette ? undefined : icons[key]),
      isEnabled,
      // Lab shows a button anew whenever its command changes; those of other notebooks stay away.
      isVisible: args => !args.panel || desk.isOurs(args.panel),
      execute: () => desk.attempt(label, execute)
    });
  }
}

function statusItem(desk, statusBar) {
  const { widgets } = desk.jupyter;
  const item = new widgets.Widget({ node: element('button', 'rlmnb-status') });
  item.node.type = 'button';
  item.node.title = 'What no longer holds in this session; click for the graph';
  item.node.addEventListener('click', () => void desk.app.commands.execute(COMMANDS.graph));
  item.hide();
  desk.status = {
    show: status => {
      item.node.textContent = status ? summary(status) : '';
      item.node.classList.toggle('rlmnb-stale', Boolean(status?.summary?.stale));
      item.setHidden(!status);
    }
  };
  statusBar.registerStatusItem('rlmnb:status', { item, align: 'left', rank: 10 });
}

/** Return the plugins, given the modules that Jupyter shares. */
export function plugins(jupyter) {
  const optional = [jupyter.apputils.ICommandPalette];
  if (jupyter.statusbar) {
    optional.push(jupyter.statusbar.IStatusBar);
  }
  if (jupyter.application?.ILabShell) {
    optional.push(jupyter.application.ILabShell);
  }
  return [
    {
      id: 'rlmnb:plugin',
      description: "An agent's session: what is fresh, what is stale and why, and its replay.",
      autoStart: true,
      requires: [jupyter.notebook.INotebookTracker],
      optional,
      activate: (app, tracker, palette, ...rest) => {
        const statusBar = jupyter.statusbar ? rest.shift() : null;
        const desk = new Desk(app, jupyter, tracker, rest.shift() || null);
        addCommands(desk);
        letMarksBePressed();
        if (palette) {
          Object.values(COMMANDS).forEach(command =>
            palette.addItem({ command, category: CATEGORY, args: { isPalette: true } })
          );
        }
        if (statusBar) {
          statusItem(desk, statusBar);
        }
      }
    }
  ];
}
