
// ---- one node: its way through the graph, its figures ---------------------------------------------------------
// Everything that isn't on the way of the chosen node, or isn't found, is dimmed.
function mark() {
  const svg = $("graph"), id = graph.chosen, words = $("graph-ask").words.value.trim().toLowerCase();
  const way = id === null ? null : new Set([id, ...graph.ways.before(id), ...graph.ways.after(id)]);
  const found = words ? graph.t.nodes.filter(n => fitsWords(n, words)) : [], hits = new Set(found.map(n => n.id));
  svg.classList.toggle("follows", way !== null);
  svg.classList.toggle("searches", words !== "" && way === null);
  for (const c of graph.cards.values()) {
    const on = c.box.members.some(n => way?.has(n.id)), here = c.box.members.some(n => n.id === id);
    c.at.classList.toggle("way", on);
    c.at.classList.toggle("chosen", here);
    c.at.setAttribute("aria-pressed", here);
    c.at.classList.toggle("hit", c.box.members.some(n => hits.has(n.id)));
  }
  const before = id === null ? null : new Set([id, ...graph.ways.before(id)]), after = id === null ? null : new Set([id, ...graph.ways.after(id)]);
  for (const { path, edges } of graph.wires) path.classList.toggle("way", before !== null && edges.some(e => before.has(e.to) && before.has(e.from) || after.has(e.from) && after.has(e.to)));
  $("graph-found").textContent = words ? `${whole(found.length)} of ${plural(graph.t.nodes.length, "node")}` : "";
  return found;
}
function fitsWords(n, words) {
  const functions = graph.t.functions.filter(f => f.node === n.name).map(f => f.function);
  return [n.name, n.op, n.store, n.line, ...(n.topics ?? []), ...functions].some(part => part?.toLowerCase().includes(words));
}
// Shows the way of a node; without one, or of an unknown one, of none.
function follow(name) {
  graph.wanted = name ?? "";
  if (!graph.t) return;
  choose(graph.t.nodes.find(n => n.name === graph.wanted)?.id ?? null);
}
function choose(id, focus) {
  graph.chosen = id;
  if (place().name === "overview") history.replaceState(null, "", id === null ? "#overview" : `#overview/${encodeURIComponent(nodeOf(id).name)}`);
  graph.wanted = id === null ? "" : nodeOf(id).name;
  const hides = id === null ? [] : graph.groups.get(id).filter(isFolded);
  for (const group of hides) { graph.opened.add(group.id); graph.closed.delete(group.id); }
  if (hides.length) build(graph.t);
  else mark();
  panel();
  if (id !== null) reach(graph.boxOf.get(id).id, focus);
}
// Tab goes to one box; the arrow keys go on from there.
function reach(boxId, focus) {
  for (const c of graph.cards.values()) c.at.setAttribute("tabindex", c.box.id === boxId ? 0 : -1);
  const at = graph.cards.get(boxId).at;
  if (focus) at.focus({ preventScroll: true });
  const room = $("graph-room"), box = at.getBoundingClientRect(), all = room.getBoundingClientRect();
  if (box.left < all.left || box.right > all.right) room.scrollLeft += box.left + box.width / 2 - all.left - all.width / 2;
  if (box.top < all.top || box.bottom > all.bottom) room.scrollTop += box.top + box.height / 2 - all.top - all.height / 2;
}
function activate(boxId) {
  const { box } = graph.cards.get(boxId);
  if (!box.group) return choose(box.members[0].id === graph.chosen ? null : box.members[0].id, true);
  graph.opened.add(box.group.id);
  graph.closed.delete(box.group.id);
  build(graph.t);
  reach(graph.boxOf.get(box.members[0].id).id, true);
  tickFigures();
}
// New boxes have no figures until the next answer; the last ones are known.
function tickFigures() {
  for (const c of graph.cards.values()) figure(c, c.box.group ? sumOf(c.box, graph.figures) : graph.figures.get(c.box.members[0].id), graph.t);
}

// ---- the panel below the graph -----------------------------------------------------------------------------------
const jump = n => { const button = el("button", { type: "button" }, brief(n.name)); button.addEventListener("click", () => choose(n.id)); return button; };
function panel() {
  const id = graph.chosen, room = $("node"), n = nodeOf(id);
  room.hidden = !n;
  if (!n) return room.replaceChildren();
  const { edges } = graph.t, others = (from, to) => [...new Set(edges.filter(e => e[to] === id).map(e => e[from]))].map(nodeOf);
  const before = graph.ways.before(id), after = graph.ways.after(id), row = (title, ...parts) => { const d = el("div"); d.append(el("b", {}, title), ...parts); return d; };
  const head = el("div", { class: "head" }), close = el("button", { type: "button", "aria-label": "Close" }, "✕");
  close.addEventListener("click", () => choose(null));
  head.append(el("h3", {}, n.name), el("span", { class: "note" }, [n.op, `stage ${n.stage}`, n.line].filter(Boolean).join(" · ")), close);
  const ends = (ids, op) => [...ids].map(nodeOf).filter(o => o.op === op && o.id !== id).flatMap(o => o.topics.length ? o.topics : [o.name]);
  const stores = [...new Set([...before, id, ...after].map(o => nodeOf(o).store).filter(Boolean))];
  const way = [plural(before.size, "node") + " before it", plural(after.size, "node") + " after it"];
  const from = ends(before, "source"), to = ends(after, "sink");
  if (from.length) way.push(`from ${from.join(", ")}`);
  if (to.length) way.push(`to ${to.join(", ")}`);
  const next = el("div", { class: "next-nodes" }), parents = others("from", "to"), children = others("to", "from");
  if (parents.length) next.append(row("Before", ...parents.map(jump)));
  if (children.length) next.append(row("After", ...children.map(jump)));
  if (stores.length) next.append(row("Stores on its way", ...stores.map(name => el("a", { href: `#stores/${encodeURIComponent(name)}` }, name))));
  const fold = graph.groups.get(id).map(group => {
    const button = el("button", { type: "button" }, `Fold its ${group.what}`);
    button.addEventListener("click", () => { graph.opened.delete(group.id); graph.closed.add(group.id); choose(null); build(graph.t); tickFigures(); });
    return button;
  });
  if (fold.length) next.append(row("Graph", ...fold));
  room.replaceChildren(head, el("p", { class: "way-note" }, way.join(", ")), el("dl", { class: "facts-list", id: "node-facts" }), next);
  facts();
}
// Only texts: what can be clicked stays, so that it keeps the focus.
function facts() {
  const n = nodeOf(graph.chosen), f = graph.figures?.get(graph.chosen), list = $("node-facts");
  if (!n || !f || !list) return;
  const rows = [["Records", `${short(f.rate)}/s, ${whole(n.records)} in all`], ["Share of the lanes' time", f.share ? percent(f.share) : "0 %"]];
  if (f.parts) rows.push(["Lag", whole(f.lag)], ...f.parts.map(p => [`${p.topic}-${p.partition}`, `lag ${whole(p.lag)}, committed ${whole(p.committed)} of ${whole(p.end)}`]));
  else if (n.op === "source") rows.push(["Lag", "see Partitions: several sources have patterns"]);
  for (const call of graph.t.functions) if (call.node === n.name) rows.push([call.function, `${plural(call.calls, "call")}, ${each(call.seconds, call.calls)} each, ${each(call.wait_seconds, call.calls)} waiting for the interpreter`]);
  for (const d of f.drops) rows.push([`Left out: ${d.reason}`, `${whole(d.count)}, ${short(d.rate)}/s lately`]);
  for (const e of faults.filter(e => e.node === n.name)) rows.push([e.exception ?? e.kind, `${whole(e.count)} times, last ${moment(e.last_at_ms)}: ${e.message}`]);
  list.replaceChildren(...rows.map(([k, v]) => { const d = el("div"); d.append(el("dt", {}, k), el("dd", {}, v)); return d; }));
}
let faults = [];

// ---- search, folding, size, keys --------------------------------------------------------------------------------
function zoom(to) {
  const svg = $("graph"), width = graph.natural;
  graph.zoom = to;
  // By itself it shrinks a little to fit its card, then scrolls: text stays readable. -1: as a whole.
  svg.style.width = to > 0 ? `${width * to}px` : `min(100%, ${width}px)`;
  svg.style.minWidth = to ? "0" : `${Math.min(width, Math.max(300, width * .85))}px`;
  svg.style.maxHeight = to === -1 ? "68vh" : "none";
}
const ZOOM = { out: 1 / 1.25, in: 1.25 };
for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => {
  const now = $("graph").getBoundingClientRect().width / graph.natural, by = ZOOM[button.dataset.zoom];
  zoom(by ? Math.min(2, Math.max(.1, now * by)) : graph.zoom === -1 ? 0 : -1);
});
$("graph-ask").words.addEventListener("input", () => { graph.hit = -1; if (graph.t) mark(); });
$("graph-ask").level.addEventListener("change", event => {
  graph.level = Number(event.target.value);
  graph.opened.clear(); graph.closed.clear();
  if (graph.chosen !== null && graph.groups.get(graph.chosen).some(isFolded)) choose(null);
  if (graph.t) { build(graph.t); tickFigures(); }
});
// Enter goes from one node that is found to the next.
$("graph-ask").addEventListener("submit", event => {
  event.preventDefault();
  const found = graph.t && event.target.words.value.trim() ? mark() : [];
  if (!found.length) return;
  graph.hit = (graph.hit + 1) % found.length;
  choose(found[graph.hit].id);
  tickFigures();
});
const TOWARDS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
// The nearest box in a direction; sideways counts more than ahead.
function nearest(id, [dx, dy]) {
  const a = graph.place.get(id), far = b => { const x = b.x - a.x, y = b.y - a.y, ahead = x * dx + y * dy; return ahead <= 0 ? Infinity : ahead + 2.5 * Math.abs(x * dy + y * dx); };
  const all = [...graph.place].filter(([other]) => other !== id).map(([other, b]) => [far(b), other]).filter(([d]) => d < Infinity);
  return all.length ? all.reduce((m, one) => one[0] < m[0] ? one : m)[1] : null;
}
const boxAt = event => { const at = event.target.closest?.(".node"); return at && [...graph.cards.values()].find(c => c.at === at)?.box.id; };
$("graph").addEventListener("click", event => { const id = boxAt(event); if (id !== null && id !== undefined) activate(id); });
$("graph").addEventListener("keydown", event => {
  const id = boxAt(event);
  if (id === null || id === undefined) return;
  const next = TOWARDS[event.key] && nearest(id, TOWARDS[event.key]);
  if (TOWARDS[event.key] || event.key === "Enter" || event.key === " ") event.preventDefault();
  if (next !== undefined && next !== null) reach(next, true);
  else if (event.key === "Enter" || event.key === " ") activate(id);
});
addEventListener("keydown", event => {
  const writes = event.target.matches("input, select, textarea");
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && place().name === "overview") { event.preventDefault(); $("graph-ask").words.focus(); }
  if (event.key !== "Escape" || !graph.t || place().name !== "overview") return;
  $("graph-ask").words.value = "";
  choose(null);
});
