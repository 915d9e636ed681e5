
// ---- topology: boxes with live figures ------------------------------------------------------------------------
// `seen` are the last answers, `chosen` is the node whose way is shown, `opened` and `closed` are the groups that
// the user has unfolded and folded.
const graph = { shape: "", level: 0, opened: new Set(), closed: new Set(), cards: new Map(), wires: [], flows: [], chosen: null, at: null, wanted: "", zoom: 0, natural: 1, hit: -1 };
const isFolded = g => !graph.opened.has(g.id) && (g.level <= graph.level || graph.closed.has(g.id));
const nodeOf = id => graph.t?.nodes.find(n => n.id === id);
const titleOf = b => b.group ? `${brief(b.members[0].name)} … ${brief(b.members.at(-1).name)}` : brief(b.members[0].name);
function fit(text, room) {
  for (let n = text.textContent.length; n > 8 && text.getComputedTextLength() > room; n--) text.textContent = text.textContent.slice(0, n - 6) + "…" + text.textContent.slice(-4);
}
function saysBelow(b) {
  const n = b.members[0];
  if (!b.group) return [n.op, n.topics?.join(", ") ?? n.store].filter(Boolean).join(" · ");
  const stores = new Set(b.members.map(m => m.store).filter(Boolean));
  return [b.group.what, plural(b.members.length, "node"), stores.size && plural(stores.size, "store")].filter(Boolean).join(" · ");
}

// ---- figures of a node: rate, share of the lanes' time, lag, records that were left out ------------------------
const LATELY_MS = 10_000, trails = new Map();
// The rate of the last ten seconds: a second has too few samples of what lanes were doing.
// What was not in the answer before (of the time `empty`) was zero then.
function lately(key, count, now, empty = null) {
  let list = trails.get(key);
  if (!list || count < list.at(-1).count || now < list.at(-1).now) trails.set(key, list = empty === null ? [] : [{ count: 0, now: empty }]);
  if (list.at(-1)?.now !== now) list.push({ count, now });
  while (list.length > 2 && now - list[1].now >= LATELY_MS) list.shift();
  return now > list[0].now ? (count - list[0].count) * 1000 / (now - list[0].now) : 0;
}
function figuresOf(t, w, lanes) {
  const now = t.monotonic_ms, owned = new Set(t.nodes.flatMap(n => n.op === "source" ? n.topics : []));
  // A source by a pattern reads what no other one does; of several such sources it is not known which.
  const patterns = t.nodes.filter(n => n.op === "source" && !n.topics.length);
  const partsOf = n => n.topics.length ? w.partitions.filter(p => n.topics.includes(p.topic)) : patterns.length === 1 ? w.partitions.filter(p => !owned.has(p.topic)) : null;
  const drops = new Map(), earlier = graph.at !== null && graph.at < now ? graph.at : null;
  for (const d of t.dropped) listed(drops, d.node, { ...d, rate: lately(`drop ${d.node} ${d.reason}`, d.count, now, earlier) });
  graph.at = now;
  return new Map(t.nodes.map(n => {
    const parts = n.op === "source" ? partsOf(n) : null, gone = drops.get(n.name) ?? [];
    return [n.id, {
      rate: rate(`node ${n.id}`, n.records, now),
      share: Math.min(1, lately(`time ${n.id}`, n.busy_seconds, now) / Math.max(1, lanes)),
      parts, lag: parts && parts.reduce((sum, p) => sum + p.lag, 0),
      drops: gone, dropped: gone.reduce((sum, d) => sum + d.count, 0), dropping: gone.reduce((sum, d) => sum + d.rate, 0),
    }];
  }));
}
// Of several nodes: what enters them, and the rest together.
function sumOf(b, figures) {
  const ids = new Set(b.members.map(n => n.id)), inner = new Set(graph.t.edges.filter(e => ids.has(e.from) && !e.lookup).map(e => e.to));
  const all = b.members.map(n => figures.get(n.id)), lags = all.map(f => f.lag).filter(lag => lag !== null);
  const sum = name => all.reduce((total, f) => total + f[name], 0);
  return {
    rate: b.members.reduce((total, n) => total + (inner.has(n.id) ? 0 : figures.get(n.id).rate), 0),
    share: sum("share"), dropped: sum("dropped"), dropping: sum("dropping"), drops: all.flatMap(f => f.drops),
    lag: lags.length ? lags.reduce((total, lag) => total + lag, 0) : null,
  };
}

// ---- drawing ----------------------------------------------------------------------------------------------------
function build(t) {
  const { boxes, boxOf, wires } = boxesOf(t, graph.groups, isFolded), g = layout(t.stages, boxes, wires), svg = $("graph");
  const focused = document.activeElement?.closest?.("#graph .node")?.dataset.id;
  svg.replaceChildren();
  Object.assign(graph, { cards: new Map(), wires: [], flows: [], boxOf, place: g.place });
  for (const c of g.columns) {
    svg.append(draw("rect", { class: "stage", x: c.x, y: 0, width: c.right - c.x, height: g.height, rx: 12 }));
    svg.append(draw("text", { class: "title", x: c.x + PAD, y: 21 }, `Stage ${c.stage.id}: ${c.stage.id === 0 ? "reads the sources" : "after the exchange"}`));
  }
  const gutters = [], under = draw("g"), cards = draw("g");
  svg.append(under, cards);
  for (const e of wires) {
    const d = route(e, g.place.get(e.from), g.place.get(e.to), g, gutters), mark = e.exchange ? " exchange" : e.lookup ? " lookup" : "";
    const wire = draw("path", { class: "edge" + mark, d });
    under.append(wire);
    graph.wires.push({ path: wire, edges: e.edges });
    if (e.lookup) { wire.append(draw("title", {}, "a join looks up this table")); continue; }
    const path = draw("path", { class: "flow" + mark, d, "aria-hidden": "true" });
    under.append(path);
    graph.wires.push({ path, edges: e.edges });
    // A child with several parents shares its count among them: only nodes are counted, not edges.
    const of = e.edges.map(one => one.exchange ? [one.from, 1] : [one.to, t.edges.filter(o => o.to === one.to && !o.exchange && !o.lookup).length || 1]);
    graph.flows.push({ path, of, at: 0, speed: 0 });
  }
  for (const { from, to } of graph.ways.topics) topicWire(from, to, under);
  for (const b of boxes) cards.append(card(b, g.place.get(b.id)));
  for (const c of graph.cards.values()) { fit(c.name, W - (c.box.group || c.box.members[0].foreign ? 40 : 26)); fit(c.below, W - 86); }
  graph.natural = g.width;
  svg.setAttribute("viewBox", `-1 -9 ${g.width + 2} ${g.height + 10 * gutters.length + 10}`);
  zoom(graph.zoom);
  // A wide graph gets the whole width of the page. What is moved loses the focus, so it is moved only once.
  const wide = g.width > 700, room = $(wide ? "wide" : "narrow");
  if (!room.contains($("topology-card"))) {
    room.prepend($("topology-card"));
    $(wide ? "narrow" : "side").append($("life-card"));
  }
  $("describe").textContent = t.description;
  const first = graph.cards.get(graph.boxOf.get(graph.chosen)?.id) ?? graph.cards.values().next().value;
  first?.at.setAttribute("tabindex", 0);
  if (focused) [...graph.cards.values()].find(c => c.at.dataset.id === focused)?.at.focus({ preventScroll: true });
  mark();
}
// From a sink to a source of the same topic. Shown only on the way of a chosen node.
function topicWire(from, to, under) {
  const a = graph.place.get(graph.boxOf.get(from).id), b = graph.place.get(graph.boxOf.get(to).id);
  if (a === b) return;
  const x1 = a.x + W / 2, x2 = b.x + W / 2, y1 = a.y + H, y2 = b.y, bend = 60;
  const path = draw("path", { class: "edge topic", d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` });
  path.append(draw("title", {}, `topic ${nodeOf(to).topics.filter(topic => nodeOf(from).topics.includes(topic)).join(", ")}`));
  under.append(path);
  graph.wires.push({ path, edges: [{ from, to }] });
}
function card(b, p) {
  const n = b.members[0], at = draw("g", { class: `node ${b.group ? "folded" : kind(n)}`, transform: `translate(${p.x} ${p.y})`, role: "button", tabindex: -1, "data-id": b.id });
  const tip = draw("title"), name = draw("text", { x: 15, y: 20 }, titleOf(b)), below = draw("text", { class: "sub", x: 15, y: 38 }, saysBelow(b));
  const rateText = draw("text", { class: "rate", x: W - 10, y: 38, "text-anchor": "end" }), lagText = draw("text", { class: "sub lag", x: 15, y: 54 });
  const shareText = draw("text", { class: "sub", x: W - 10, y: 54, "text-anchor": "end" }), share = draw("rect", { class: "used", x: 15, y: H - 6, height: 3, rx: 1.5, width: 0 });
  const faults = draw("g", { class: "faults", visibility: "hidden" }), pill = draw("rect", { y: -8, height: 17, rx: 8.5 }), count = draw("text", { y: 4.5, "text-anchor": "middle" });
  faults.append(pill, count);
  if (b.group) at.append(draw("rect", { class: "back", x: 5, y: 5, width: W, height: H, rx: 9 }));
  at.append(tip, draw("rect", { class: "box", width: W, height: H, rx: 9, ...(n.op === "exchange" && !b.group ? { "stroke-dasharray": "6 5" } : {}) }),
    draw("rect", { class: "side", x: 5, y: 11, width: 3, height: H - 22, rx: 1.5 }), draw("rect", { class: "track", x: 15, y: H - 6, height: 3, rx: 1.5, width: W - 25 }), share, name, below, rateText, lagText, shareText, faults);
  const sign = b.group ? "+" : n.foreign ? "ƒ" : "";
  if (sign) at.append(draw("text", { class: "sign", x: W - 10, y: 20, "text-anchor": "end" }, sign));
  graph.cards.set(b.id, { box: b, at, tip, name, below, rateText, lagText, shareText, share, faults, pill, count });
  return at;
}
function figure(c, f, t) {
  const n = c.box.members[0], name = c.box.group ? titleOf(c.box) : n.name;
  const lag = f.lag === null ? "" : `lag ${short(f.lag)}`, busy = f.share >= .005 ? `${Math.round(100 * f.share)} % of time` : "";
  c.rateText.textContent = `${short(f.rate)}/s`;
  c.lagText.textContent = lag;
  c.shareText.textContent = busy;
  c.share.setAttribute("width", ((W - 25) * Math.min(1, f.share)).toFixed(1));
  c.at.classList.toggle("hot", f.share >= .5);
  c.at.classList.toggle("behind", f.lag > 0);
  c.faults.setAttribute("visibility", f.dropped ? "visible" : "hidden");
  c.faults.classList.toggle("now", f.dropping > 0);
  if (f.dropped) {
    const says = `⚠ ${short(f.dropped)}`, wide = 16 + 7 * says.length;
    c.count.textContent = says;
    c.count.setAttribute("x", W - 12 - wide / 2);
    c.pill.setAttribute("x", W - 12 - wide);
    c.pill.setAttribute("width", wide);
  }
  const left = f.drops.map(d => `${whole(d.count)} left out: ${d.reason}`);
  const facts = c.box.group ? [`${name} (${c.box.group.what})`, plural(c.box.members.length, "node")] : [`${n.name} (${n.op})`, plural(n.records, "record"), n.topics && `topics: ${n.topics.join(", ")}`, n.store && `store: ${n.store}`, n.foreign && "calls a user function", n.line];
  const all = [...facts, f.lag !== null && `lag: ${whole(f.lag)}`, busy, ...left].filter(Boolean);
  c.tip.textContent = all.join("\n");
  c.at.setAttribute("aria-label", [...all, `${short(f.rate)} records per second`, c.box.group ? "press Enter to unfold it" : "press Enter to follow its records"].join(", "));
}

function topology(t, w, lanes) {
  const now = t.monotonic_ms;
  graph.t = t;
  const wanted = JSON.stringify([t.nodes.map(n => [n.id, n.name, n.stage]), t.edges]);
  if (wanted !== graph.shape) {
    graph.shape = wanted;
    graph.groups = groupsOf(t);
    graph.ways = waysOf(t);
    graph.level = levelFor(t, graph.groups);
    graph.opened.clear(); graph.closed.clear();
    $("graph-ask").level.value = graph.level;
    graph.chosen = null;
    build(t);
    follow(graph.wanted);
  }
  graph.figures = figuresOf(t, w, lanes);
  for (const c of graph.cards.values()) figure(c, c.box.group ? sumOf(c.box, graph.figures) : graph.figures.get(c.box.members[0].id), t);
  for (const f of graph.flows) {
    const r = f.of.reduce((sum, [id, parts]) => sum + (graph.figures.get(id)?.rate ?? 0) / parts, 0);
    // Logarithmic: a stream of ten and one of a million records must both be seen to move.
    f.speed = r > 0 ? 14 + 26 * Math.log10(1 + r) : 0;
    f.path.style.opacity = r > 0 ? Math.min(1, .45 + .14 * Math.log10(1 + r)) : 0;
    f.path.setAttribute("stroke-dasharray", `0.1 ${Math.max(17, 44 - 5 * Math.log10(1 + r)).toFixed(0)}`);
  }
  const stages = plural(t.stages.length, "stage"), hops = t.edges.filter(e => e.exchange).length, boxes = graph.cards.size;
  $("topology-note").textContent = `${stages}, ${plural(t.nodes.length, "node")}${boxes < t.nodes.length ? ` in ${boxes} boxes` : ""}, ${plural(hops, "exchange")}`;
  $("graph").setAttribute("aria-label", `Topology: ${stages}, ${plural(t.nodes.length, "node")}. Arrow keys go from box to box.`);
  $("dropped").hidden = t.dropped.length === 0;
  $("dropped").textContent = "Dropped: " + t.dropped.map(d => `${whole(d.count)} at ${d.node} (${d.reason})`).join(", ");
  facts();

  const c = t.counts, into = rate("in", c.records_in, now), kept = rate("committed", c.records_committed, now), out = rate("out", c.records_out, now);
  tile("in", "Records in", `${short(into)}/s`, `${whole(c.records_in)} in all`, into, "var(--blue)");
  tile("committed", "Committed", `${short(kept)}/s`, `${plural(c.commits, "commit")}`, kept, "var(--teal)");
  tile("out", "Records out", `${short(out)}/s`, `${whole(c.records_out)} in all`, out, "var(--amber)");
  tile("lag", "Lag", short(c.lag), "readable, not committed", c.lag, "var(--red)");
  tile("flight", "In flight", size(c.in_flight_bytes), "admitted, on its way", c.in_flight_bytes, "var(--violet)");
  tile("state", "State memory", size(c.state_memory_bytes), `${size(c.staged_bytes)} staged`, c.state_memory_bytes, "var(--soft)");
}

let last = 0;
function move(at) {
  const step = Math.min(100, at - last) / 1000;
  last = at;
  if (!still.matches && !document.body.classList.contains("gone")) {
    for (const f of graph.flows) if (f.speed) { f.at = (f.at - f.speed * step) % 1e5; f.path.style.strokeDashoffset = f.at.toFixed(1); }
  }
  requestAnimationFrame(move);
}
requestAnimationFrame(move);
