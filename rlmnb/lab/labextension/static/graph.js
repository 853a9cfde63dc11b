// The panel beside a notebook: what its cells need from one another, and what a replay would do.

import { counted, element, placed, sign } from './badges.js';
import { BOX, laidOut } from './layout.js';

const SVG = 'http://www.w3.org/2000/svg';
const LETTERS = 26;

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, String(value));
  }
  if (text !== undefined) {
    made.textContent = text;
  }
  return made;
}

const short = text => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

const stateOf = node => (node.kind === 'file' ? 'file' : String(node.state || 'never'));

function heading(node) {
  if (node.kind === 'file') {
    return 'file';
  }
  if (node.kind === 'group') {
    return counted((node.cells || []).length, 'cell');
  }
  return [`#${node.number}`, node.operation, node.state].filter(Boolean).join(' · ');
}

function about(node, numbers) {
  const causes = (node.causes || []).map(cause => `because ${placed(String(cause), numbers)}`);
  const effects = node.effectful ? ['changes things outside the notebook'] : [];
  return [heading(node), String(node.label || node.title || ''), ...causes, ...effects].join('\n');
}

function boxOf(node, at, told) {
  const state = stateOf(node).replace(/[^a-z]/g, '');
  const group = drawn('g', {
    class: `rlmnb-node rlmnb-${state}${node.effectful ? ' rlmnb-effectful' : ''}`,
    transform: `translate(${at.x} ${at.y})`
  });
  group.appendChild(drawn('title', {}, told));
  const rounding = node.kind === 'cell' ? 5 : node.kind === 'group' ? 12 : 0;
  group.appendChild(drawn('rect', { ...BOX, rx: rounding }));
  const mark = sign(state);
  for (const [key, value] of Object.entries({ x: 10, y: 6, width: 13, height: 13 })) {
    mark.setAttribute(key, value);
  }
  group.appendChild(mark);
  group.appendChild(drawn('text', { x: 29, y: 17, class: 'rlmnb-head' }, short(heading(node))));
  group.appendChild(drawn('text', { x: 10, y: 33 }, short(String(node.title || ''))));
  return group;
}

function lineOf(edge, from, to) {
  const [x1, y1] = [from.x + BOX.width / 2, from.y + BOX.height];
  const [x2, y2] = [to.x + BOX.width / 2, to.y - 1];
  const bend = Math.max(18, (y2 - y1) / 2);
  const path = drawn('path', {
    class: 'rlmnb-edge',
    d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
    'marker-end': 'url(#rlmnb-arrow)'
  });
  path.appendChild(drawn('title', {}, String(edge.reason || '')));
  return path;
}

/** Return a graph as an SVG element; `go` is called with the id of the cell that is chosen. */
export function picture(graph, room, go) {
  const nodes = graph.nodes || [];
  const there = new Set(nodes.map(node => node.id));
  const edges = (graph.edges || []).filter(edge => there.has(edge.from) && there.has(edge.to));
  const { boxes, width, height } = laidOut(nodes, edges, room);
  const svg = drawn('svg', { class: 'rlmnb-graph', width, height, viewBox: `0 0 ${width} ${height}` });
  const arrow = drawn('marker', {
    id: 'rlmnb-arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'
  });
  arrow.appendChild(drawn('path', { d: 'M0 0 L8 4 L0 8 z' }));
  svg.appendChild(drawn('defs', {})).appendChild(arrow);
  edges.forEach(edge => svg.appendChild(lineOf(edge, boxes.get(edge.from), boxes.get(edge.to))));
  const numbers = new Map(nodes.filter(node => node.number).map(node => [node.id, node.number]));
  for (const node of nodes) {
    const told = about(node, numbers);
    const box = boxOf(node, boxes.get(node.id), told);
    const cell = node.kind === 'group' ? (node.cells || [])[0] : node.id;
    if (node.kind !== 'file') {
      box.setAttribute('tabindex', '0');
      box.setAttribute('role', 'button');
      box.setAttribute('aria-label', told);
      box.dataset.cell = cell;
      box.addEventListener('click', () => go(cell));
      box.addEventListener('keydown', event => {
        if (event.key === 'Enter' || event.key === ' ') {
          event.preventDefault();
          go(cell);
        }
      });
    }
    svg.appendChild(box);
  }
  return svg;
}

function planned(steps, title, className, go) {
  const part = element('section', `rlmnb-plan ${className}`);
  part.appendChild(element('h3', '', title));
  const list = element('ul', '');
  for (const step of steps) {
    const item = element('li', '');
    const link = element('button', 'rlmnb-link', String(step.label || step.cell_id));
    link.type = 'button';
    link.addEventListener('click', () => go(step.cell_id));
    const why = [step.hindered, ...(step.causes || [])].filter(Boolean).join('; ');
    item.append(link, element('span', 'rlmnb-why', why));
    if ((step.effects || []).length) {
      item.append(element('span', 'rlmnb-chip rlmnb-effects', step.effects.join(', ')));
    }
    list.appendChild(item);
  }
  part.appendChild(list);
  return part;
}

/** Return what a replay would do, as a list. */
export function planView(plan, go) {
  const view = element('div', 'rlmnb-plans');
  const runs = plan.would_execute || [];
  const not = plan.would_skip || [];
  const title = runs.length ? `${counted(runs.length, 'cell')} would run` : 'Nothing would run';
  view.appendChild(planned(runs, title, 'rlmnb-runs', go));
  if (not.length) {
    const words = `${counted(not.length, 'cell')} would not`;
    view.appendChild(planned(not, words, 'rlmnb-skips', go));
  }
  return view;
}

/** Make the panel; `follow` gives the notebook that it is about. */
export function makePanel({ widgets }) {
  const panel = new widgets.Widget();
  panel.id = 'rlmnb-graph';
  panel.title.label = 'Session graph';
  panel.title.caption = 'What the cells need from one another';
  panel.title.closable = true;
  panel.addClass('rlmnb-panel');
  panel.node.tabIndex = -1;
  // Keys pressed here are for the boxes; Lab's shortcuts still work from the notebook.
  const head = element('div', 'rlmnb-summary');
  head.setAttribute('aria-live', 'polite');
  const plans = element('div', '');
  const graph = element('div', 'rlmnb-canvas');
  panel.node.append(head, plans, graph);
  let shown = '';
  return {
    widget: panel,
    say: text => {
      head.textContent = text;
    },
    showPlan: view => plans.replaceChildren(...(view ? [view] : [])),
    showGraph: (found, go) => {
      const nodes = found.nodes || [];
      // What is drawn already keeps the focus and the place where it was scrolled to.
      const now = JSON.stringify([found, panel.node.clientWidth]);
      if (now === shown) {
        return;
      }
      shown = now;
      graph.replaceChildren(
        nodes.length
          ? picture(found, panel.node.clientWidth || 420, go)
          : element('p', 'rlmnb-empty', 'No code cells yet, so there is nothing to draw.')
      );
    },
    clear: text => {
      shown = '';
      head.textContent = text;
      plans.replaceChildren();
      graph.replaceChildren();
    }
  };
}
