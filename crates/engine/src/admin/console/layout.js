
// ---- layout: which boxes the graph has, and where they stand -------------------------------------------------
const W = 236, H = 66, GAP_X = 22, GAP_Y = 30, GAP_DEEP = 46, GAP_ROW = 14, PAD = 18, TITLE = 34, BETWEEN = 74;
// A chain of at least LONG nodes can be folded. With more than MANY boxes, the graph is folded further by itself.
const LONG = 3, MANY = 60, WIDE = 4;
const kind = n => n.op === "source" || n.op === "scheduled" ? "k-source" : n.op === "sink" ? "k-sink" : n.op === "exchange" ? "k-exchange" : n.store ? "k-store" : "";
const listed = (map, key, value) => map.has(key) ? map.get(key).push(value) : map.set(key, [value]);

// Nodes that are connected within a stage: what Kafka Streams calls a sub-topology.
function connected(ids, edges) {
  const of = new Map(ids.map(id => [id, id]));
  const root = id => { while (of.get(id) !== id) id = of.get(id); return id; };
  for (const e of edges) if (!e.exchange && !e.lookup && of.has(e.from) && of.has(e.to)) of.set(root(e.from), root(e.to));
  const all = new Map();
  for (const id of ids) listed(all, root(id), id);
  return [...all.values()];
}
// Stateless nodes in a row, without a fork, a store or a topic between them.
function chainsOf(t) {
  const into = new Map(), out = new Map(), node = new Map(t.nodes.map(n => [n.id, n]));
  for (const e of t.edges) { listed(out, e.from, e); listed(into, e.to, e); }
  const plain = n => kind(n) === "" && !n.topics;
  const after = n => {
    const edges = out.get(n.id) ?? [], to = edges.length === 1 && !edges[0].exchange && !edges[0].lookup && node.get(edges[0].to);
    return to && plain(to) && into.get(to.id).length === 1 ? to : null;
  };
  const plains = t.nodes.filter(plain), later = new Set(plains.map(after).filter(Boolean).map(n => n.id));
  const runs = plains.filter(n => !later.has(n.id)).map(head => {
    const run = [head];
    for (let next = after(head); next; next = after(next)) run.push(next);
    return run;
  });
  return runs.filter(run => run.length >= LONG);
}
// Each node's groups, the outer one first: its sub-topology, its chain.
function groupsOf(t) {
  const of = new Map(t.nodes.map(n => [n.id, []])), node = new Map(t.nodes.map(n => [n.id, n]));
  for (const stage of t.stages) {
    const ids = t.nodes.filter(n => n.stage === stage.id).map(n => n.id);
    for (const some of connected(ids, t.edges)) {
      if (some.length < 2) continue;
      const group = { id: `sub-${some[0]}`, level: 2, what: "sub-topology", members: some.map(id => node.get(id)) };
      for (const id of some) of.get(id).push(group);
    }
  }
  for (const run of chainsOf(t)) {
    const group = { id: `chain-${run[0].id}`, level: 1, what: "chain", members: run };
    for (const n of run) of.get(n.id).push(group);
  }
  return of;
}
// The boxes to draw: a node, or the outermost group of it that is folded.
function boxesOf(t, groups, folded) {
  const boxes = new Map(), boxOf = new Map();
  for (const n of t.nodes) {
    const group = groups.get(n.id).find(folded), id = group?.id ?? n.id;
    if (!boxes.has(id)) boxes.set(id, { id, group, stage: n.stage, members: group?.members ?? [n] });
    boxOf.set(n.id, boxes.get(id));
  }
  const wires = new Map();
  for (const e of t.edges) {
    const from = boxOf.get(e.from), to = boxOf.get(e.to);
    if (!from || !to || from === to) continue;
    const key = `${from.id} ${to.id} ${e.exchange} ${e.lookup}`;
    if (!wires.has(key)) wires.set(key, { from: from.id, to: to.id, exchange: e.exchange, lookup: e.lookup, edges: [] });
    wires.get(key).edges.push(e);
  }
  return { boxes: [...boxes.values()], boxOf, wires: [...wires.values()] };
}
// The least folding that leaves few enough boxes.
function levelFor(t, groups) {
  for (const level of [0, 1]) if (boxesOf(t, groups, g => g.level <= level).boxes.length <= MANY) return level;
  return boxesOf(t, groups, g => g.level <= 1).boxes.length <= 2 * MANY ? 1 : 2;
}

// A stage is a column. Narrow graphs run down in it; wide ones run to the right, with branches below each other.
function layout(stages, boxes, wires) {
  const parents = new Map(boxes.map(b => [b.id, []]));
  for (const e of wires) if (!e.exchange && !e.lookup) parents.get(e.to).push(e.from);
  const depth = new Map(), place = new Map();
  const deep = id => {
    if (!depth.has(id)) { depth.set(id, 0); depth.set(id, Math.max(0, ...parents.get(id).map(p => deep(p) + 1))); }
    return depth.get(id);
  };
  const columns = stages.map(stage => {
    const mine = boxes.filter(b => b.stage === stage.id).map(b => b.id);
    const parts = connected(mine, wires).map(ids => {
      const rows = [];
      for (const id of ids) (rows[deep(id)] ??= []).push(id);
      return { rows, wide: Math.max(...rows.map(r => r.length)) };
    });
    return { stage, parts, wide: parts.reduce((sum, part) => sum + part.wide, 0) };
  });
  const flat = Math.max(...columns.map(c => c.wide)) > WIDE;
  const [along, across, gapAcross] = flat ? [W + GAP_DEEP, H + GAP_ROW, GAP_ROW] : [H + GAP_Y, W + GAP_X, GAP_X];
  let x = 0, height = 0;
  for (const column of columns) {
    column.x = x;
    let at = flat ? TITLE : x + PAD, most = 0;
    for (const { rows, wide } of column.parts) {
      const room = wide * across - gapAcross;
      rows.forEach((row, d) => {
        spread(row, parents, place, { flat, at, across, room }).forEach((off, i) => place.set(row[i], { stage: column.stage.id, ...(flat ? { x: x + PAD + d * along, y: off } : { x: off, y: TITLE + d * along }) }));
      });
      most = Math.max(most, rows.length * along - (flat ? GAP_DEEP : GAP_Y));
      at += room + gapAcross * 1.5;
    }
    const end = at - gapAcross * 1.5 + PAD;
    column.right = Math.max(flat ? x + most + 2 * PAD : end, x + W + 2 * PAD);
    height = Math.max(height, flat ? end : TITLE + most + PAD);
    x = column.right + BETWEEN;
  }
  return { place, parents, columns, flat, width: Math.max(x - BETWEEN, 1), height: Math.max(height, 60) };
}
// Sorts a row and returns where its boxes stand: beside their parents as far as they can, so that edges cross seldom.
function spread(row, parents, place, { flat, at, across, room }) {
  const wish = new Map(row.map(id => {
    const ps = parents.get(id).map(p => place.get(p)).filter(Boolean);
    return [id, ps.length ? ps.reduce((sum, p) => sum + (flat ? p.y : p.x), 0) / ps.length : null];
  }));
  row.sort((a, b) => (wish.get(a) ?? at) - (wish.get(b) ?? at));
  const last = at + room - (flat ? H : W), free = (last - at - (row.length - 1) * across) / 2;
  const offs = row.map((id, i) => {
    const mine = wish.get(id), same = row.filter(other => wish.get(other) === mine);
    // Sources stand at the top of a wide graph, where it is opened, and in the middle of a narrow one.
    if (mine === null) return flat ? at + i * across : at + free + i * across;
    return mine + (same.indexOf(id) - (same.length - 1) / 2) * across;
  });
  offs.forEach((off, i) => { offs[i] = Math.max(off, i ? offs[i - 1] + across : at); });
  for (let i = row.length - 1; i >= 0; i--) offs[i] = Math.min(offs[i], i === row.length - 1 ? last : offs[i + 1] - across);
  return offs;
}
// An exchange runs below the boxes between it and its target, not through them.
function hop(a, b, g, gutters) {
  const x2 = b.x, y2 = b.y + H / 2, right = g.columns.find(c => c.stage.id === a.stage).right;
  const next = g.columns.findIndex(c => c.stage.id === b.stage), before = g.columns[next - 1]?.right ?? right;
  const between = [a.y, b.y], blocked = before !== right || [...g.place.values()].some(p => p.stage === a.stage && p.x > a.x && p.y < Math.max(...between) + H && p.y + H > Math.min(...between));
  if (!blocked) {
    const x1 = a.x + W, y1 = a.y + H / 2, bend = Math.max(36, (x2 - x1) / 2);
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const x1 = a.x + W / 2, y1 = a.y + H, low = g.height + 8 * gutters.push(a), bend = Math.max(36, (x2 - before) / 2);
  return `M${x1} ${y1}V${low - 12}Q${x1} ${low} ${x1 + 12} ${low}H${before}C${before + bend} ${low} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
function route(e, a, b, g, gutters) {
  if (e.exchange) return hop(a, b, g, gutters);
  if (e.lookup) {
    // From side to side: a table and its join are rarely below each other.
    const right = b.x > a.x, x1 = right ? a.x + W : a.x, x2 = right ? b.x : b.x + W, y1 = a.y + H / 2, y2 = b.y + H / 2, bend = right ? 24 : -24;
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  if (g.flat) {
    const x1 = a.x + W, y1 = a.y + H / 2, x2 = b.x, y2 = b.y + H / 2, m = (x1 + x2) / 2;
    return y1 === y2 ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}C${m} ${y1} ${m} ${y2} ${x2} ${y2}`;
  }
  const x1 = a.x + W / 2, y1 = a.y + H, x2 = b.x + W / 2, y2 = b.y, m = (y1 + y2) / 2;
  return x1 === x2 ? `M${x1} ${y1}V${y2}` : `M${x1} ${y1}C${x1} ${m} ${x2} ${m} ${x2} ${y2}`;
}

// ---- the way of a record: all nodes before and after one, also through topics of the same application ---------
function waysOf(t) {
  const before = new Map(), after = new Map(), topics = [];
  for (const sink of t.nodes) if (sink.op === "sink") for (const source of t.nodes) {
    if (source.op === "source" && source.topics.some(topic => sink.topics.includes(topic))) topics.push({ from: sink.id, to: source.id });
  }
  for (const e of [...t.edges, ...topics]) { listed(after, e.from, e.to); listed(before, e.to, e.from); }
  const walk = (from, next) => {
    const seen = new Set(), open = [from];
    while (open.length) for (const id of next.get(open.pop()) ?? []) if (!seen.has(id)) { seen.add(id); open.push(id); }
    return seen;
  };
  return { before: id => walk(id, before), after: id => walk(id, after), topics };
}
