// Where the boxes of a graph go: connected parts in layers, each cell below what it needs.

const WIDE = 186;
const HIGH = 42;
const BESIDE = 18;
const BELOW = 40;
const EDGE = 14;

export const BOX = { width: WIDE, height: HIGH };

function partsOf(nodes, edges) {
  const leader = new Map(nodes.map(node => [node.id, node.id]));
  const find = id => {
    let at = id;
    while (leader.get(at) !== at) {
      leader.set(at, leader.get(leader.get(at)));
      at = leader.get(at);
    }
    return at;
  };
  for (const edge of edges) {
    leader.set(find(edge.to), find(edge.from));
  }
  const parts = new Map();
  for (const node of nodes) {
    const key = find(node.id);
    parts.set(key, [...(parts.get(key) || []), node]);
  }
  return [...parts.values()];
}

/** Return the layer of each node: one below the lowest that it needs. Cells come in order. */
function depths(nodes, incoming) {
  const depth = new Map();
  for (const node of nodes) {
    const above = (incoming.get(node.id) || []).map(edge => depth.get(edge.from) ?? -1);
    depth.set(node.id, Math.max(-1, ...above) + 1);
  }
  return depth;
}

function layersOf(part, incoming, outgoing) {
  const depth = depths(part, incoming);
  const layers = [];
  for (const node of part) {
    const at = depth.get(node.id);
    (layers[at] ||= []).push(node.id);
  }
  // A few passes of ordering by the middle of one's neighbours leave few crossings.
  for (let pass = 0; pass < 4; pass += 1) {
    const down = pass % 2 === 0;
    const order = new Map(layers.flatMap(layer => layer.map((id, at) => [id, at - layer.length / 2])));
    for (const layer of layers) {
      const middle = id => {
        const near = down
          ? (incoming.get(id) || []).map(edge => edge.from)
          : (outgoing.get(id) || []).map(edge => edge.to);
        const spots = near.filter(each => order.has(each)).map(each => order.get(each));
        return spots.length ? spots.reduce((a, b) => a + b, 0) / spots.length : order.get(id);
      };
      const middles = new Map(layer.map(id => [id, middle(id)]));
      layer.sort((a, b) => middles.get(a) - middles.get(b));
    }
  }
  return layers;
}

/** Return `{boxes: Map of id to {x, y}, width, height}` for a drawing about this wide. */
export function laidOut(nodes, edges, room) {
  const incoming = grouped(edges, 'to');
  const outgoing = grouped(edges, 'from');
  const perRow = Math.max(1, Math.floor((room - 2 * EDGE + BESIDE) / (WIDE + BESIDE)));
  const boxes = new Map();
  const parts = partsOf(nodes, edges);
  const alone = parts.filter(part => part.length === 1).flat();
  let y = EDGE;
  let width = 0;
  const row = (ids, most) => {
    const indent = ((most - ids.length) * (WIDE + BESIDE)) / 2;
    ids.forEach((id, at) => boxes.set(id, { x: EDGE + indent + at * (WIDE + BESIDE), y }));
    width = Math.max(width, 2 * EDGE + most * (WIDE + BESIDE) - BESIDE);
  };
  for (const part of parts.filter(each => each.length > 1)) {
    const layers = layersOf(part, incoming, outgoing);
    const most = Math.max(...layers.map(layer => layer.length));
    for (const layer of layers) {
      row(layer, most);
      y += HIGH + BELOW;
    }
    y -= BELOW - BESIDE;
  }
  for (let at = 0; at < alone.length; at += perRow) {
    row(alone.slice(at, at + perRow).map(node => node.id), Math.min(perRow, alone.length - at));
    y += HIGH + BESIDE;
  }
  return { boxes, width: Math.max(width, 2 * EDGE), height: y - BESIDE + EDGE };
}

function grouped(edges, key) {
  const found = new Map();
  for (const edge of edges) {
    found.set(edge[key], [...(found.get(edge[key]) || []), edge]);
  }
  return found;
}
