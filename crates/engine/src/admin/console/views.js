
// ---- views: each asks only while it is shown ------------------------------------------------------------------
const VIEWS = ["overview", "busy", "stores", "errors", "dead-letters", "doctor", "settings"];
const place = () => {
  const [name, ...rest] = location.hash.slice(1).split("/");
  return VIEWS.includes(name) ? { name, rest: decodeURIComponent(rest.join("/")) } : { name: "overview", rest: "" };
};
const cell = (text, kind) => el("td", kind ? { class: kind } : {}, text);
const line = cells => { const row = el("tr"); row.append(...cells); return row; };
const titles = names => line(names.map(([name, left]) => el("th", left ? { class: "l" } : {}, name)));
const percent = share => `${(100 * share).toFixed(share < .1 ? 1 : 0)} %`;
function bar(share) {
  const td = el("td", { class: "l" }), box = el("span", { class: "share" }), fill = el("i");
  fill.style.width = `${(100 * Math.min(1, share)).toFixed(1)}%`;
  box.append(fill);
  td.append(box, percent(share));
  return td;
}
// What fails is told in the view: the badge above says whether the engine answers at all.
async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10000), cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error([body.detail ?? body.title, body.next_step].filter(Boolean).join(". Next: "));
  return body;
}

// ---- busy -------------------------------------------------------------------------------------------------
const BUSY = [
  ["lanes", "Lanes", [["lane", 1], ["busy", 1], ["records/s"], ["waiting"], ["in", 1]], l => [cell(l.lane, "l"), bar(l.busy), cell(short(l.records_per_second)), cell(whole(l.queued_items)), cell(l.function ?? "", "l")]],
  ["functions", "Functions", [["function", 1], ["busy", 1], ["waiting for the interpreter"], ["calls/s"], ["each"]], f => [cell(f.function, "l"), bar(f.busy), cell(percent(f.waiting)), cell(short(f.calls_per_second)), cell(each(f.mean_ms / 1000, 1))]],
  ["keys", "Hot keys", [["key", 1], ["share", 1], ["node", 1], ["lane"]], k => [cell(k.key, "text"), bar(k.share), cell(brief(k.node), "l"), cell(k.lane)]],
  ["stores", "Stores", [["store", 1], ["keys, about"], ["on disk"], ["in memory"]], s => [cell(s.store, "l"), cell(whole(s.keys)), cell(size(s.disk_bytes)), cell(size(s.memory_bytes))]],
  ["partitions", "Partitions behind", [["topic", 1], ["partition"], ["lag"]], p => [cell(p.topic, "l"), cell(p.partition), cell(whole(p.lag))]],
  ["drops", "Left out", [["node", 1], ["why", 1], ["per second"], ["in all"]], d => [cell(brief(d.node), "l"), cell(d.reason, "l"), cell(short(d.per_second)), cell(whole(d.total))]],
];
function busy(top) {
  $("busy").replaceChildren(...BUSY.map(([key, title, heads, cells]) => {
    const rows = top[key], card = el("section", { class: "card" }), head = el("div", { class: "head" });
    head.append(el("h2", {}, title), el("span", { class: "note" }, rows.length ? "the largest first" : "none"));
    card.append(head);
    if (rows.length) {
      const table = el("table"), thead = el("thead"), body = el("tbody"), scroll = el("div", { class: "scroll", tabindex: 0, "aria-label": title, style: "max-height:20rem" });
      thead.append(titles(heads));
      body.append(...rows.map(row => line(cells(row))));
      table.append(thead, body);
      scroll.append(table);
      card.append(scroll);
    }
    return card;
  }));
}

// ---- stores -------------------------------------------------------------------------------------------------
let shown = null;
const text = value => value === null ? "null" : typeof value === "string" ? value : JSON.stringify(value);
const COLUMNS = { start: "from", end: "to", valid_from: "from", valid_to: "to" };
function stores(all, name) {
  const known = all.stores.find(store => store.name === name);
  $("store-list").replaceChildren(...all.stores.map(store => {
    const item = el("li"), link = el("a", { href: `#stores/${encodeURIComponent(store.name)}` }, store.name);
    if (store.name === name) link.setAttribute("aria-current", "page");
    if (!store.readable) link.className = "unreadable";
    link.append(el("small", {}, store.readable ? `${store.kind}: ${store.key.serde} to ${store.value.serde}` : `${store.kind}, not readable`));
    item.append(link);
    return item;
  }));
  if (!all.stores.length) $("store-list").append(el("li", { class: "note" }, "This topology keeps no state."));
  $("rows-ask").hidden = !known?.readable;
  for (const part of ["rows-where", "rows-scan"]) $(part).hidden = known?.kind !== "key-value";
  if (known?.readable) rows(known);
  else tell(known ? known.why : name ? `There is no store named '${name}'.` : "Choose a store.");
}
function tell(problem) {
  $("rows-problem").hidden = !problem;
  $("rows-problem").textContent = problem ?? "";
  if (!problem) return;
  $("rows-head").replaceChildren();
  $("rows").replaceChildren();
  $("rows-note").textContent = "";
  $("rows-more").hidden = true;
}
async function rows(store, cursor) {
  const form = $("rows-ask"), path = `/stores/${encodeURIComponent(store.name)}`;
  const where = store.kind === "key-value" ? form.where.value.trim() : "", wanted = form.key.value.trim();
  const ask = new URLSearchParams({ limit: 100, ...(cursor && { cursor }) });
  const exact = wanted && !wanted.endsWith("*"), reverse = form.reverse.checked;
  if (!cursor) {
    if (where) ask.set("where", where);
    if (where && form.scan.checked) ask.set("allow_scan", true);
    if (where && reverse) ask.set("order_by", "_key desc");
    if (!where && reverse) ask.set("reverse", true);
    if (wanted && !exact) ask.set("prefix", wanted.slice(0, -1));
  }
  shown = { store, cursor: null };
  if (where && wanted) return tell("Give a key or a condition. A condition may name the key: _key = 'ann'.");
  try {
    // Of one key: a row, or the windows that it has.
    const single = exact && store.kind === "key-value";
    const found = await get(`${path}${exact ? `/${encodeURIComponent(wanted)}` : ""}${single ? "" : `?${ask}`}`);
    if (shown.store !== store) return;
    const entries = found.entries ?? [{ key: found.key, value: found.value, timestamp: found.timestamp }];
    const times = Object.keys(COLUMNS).filter(name => entries.some(entry => name in entry));
    tell(null);
    $("rows-head").replaceChildren(titles([["key", 1], ...times.map(name => [COLUMNS[name], 1]), ["value", 1], ["time"]]));
    const made = entries.map(e => line([cell(text(e.key), "text"), ...times.map(name => cell(moment(e[name] ?? null), "l")), cell(text(e.value), "text"), cell(moment(e.timestamp ?? null))]));
    if (cursor) $("rows").append(...made);
    else $("rows").replaceChildren(...made);
    shown.cursor = found.cursor ?? null;
    $("rows-more").hidden = !shown.cursor;
    const { way, index, rows_read: read } = found.plan ?? {};
    const how = way && `, ${index ? `by index ${index}` : way === "scan" ? "by reading all rows" : "by key"}, ${whole(read)} read`;
    $("rows-note").textContent = `${plural($("rows").children.length, "row")} of the commit of epoch ${whole(found.epoch)}${how ?? ""}`;
  } catch (problem) {
    tell(problem.message);
  }
}
$("rows-ask").addEventListener("submit", event => { event.preventDefault(); if (shown) rows(shown.store); });
$("rows-more").addEventListener("click", () => { if (shown?.cursor) rows(shown.store, shown.cursor); });

// ---- errors -------------------------------------------------------------------------------------------------
let told = "";
function errors({ errors: all, at_ms: now }) {
  faults = all;
  $("error-count").hidden = all.length === 0;
  $("error-count").textContent = all.length;
  // Drawn again only if something is new: a traceback that is open stays open.
  const wanted = JSON.stringify(all);
  if (wanted === told) return;
  told = wanted;
  const open = new Set([...document.querySelectorAll("#errors details[open]")].map(details => details.dataset.cause));
  $("errors-none").hidden = all.length > 0;
  $("errors").replaceChildren(...all.map(e => {
    const card = el("section", { class: "card fault" }), facts = el("div", { class: "facts" }), cause = `${e.first_at_ms} ${e.node} ${e.function}`;
    const where = e.topic === null ? null : `last at ${e.topic}-${e.partition}, offset ${e.offset}`;
    const says = [e.outcome === "failed" ? "ended the application" : e.outcome, `${whole(e.count)} times`, `first ${moment(e.first_at_ms)}`, `last ${moment(e.last_at_ms)} (${span(now - e.last_at_ms)} ago)`, e.function, e.store && `store ${e.store}`, where];
    if (e.node) facts.append(el("a", { href: `#overview/${encodeURIComponent(e.node)}` }, `node ${e.node}`));
    facts.append(...says.filter(Boolean).map(said => el("span", {}, said)));
    card.append(el("h2", {}, e.exception ?? e.kind), el("p", {}, e.message), facts, el("p", {}, `Next: ${e.outcome === "failed" ? e.next_step : `see what it means with stoatflow explain ${e.outcome}`}`));
    if (e.traceback) {
      const details = el("details", { "data-cause": cause });
      details.open = open.has(cause);
      details.append(el("summary", {}, "Traceback of the first"), el("pre", { tabindex: 0 }, e.traceback));
      card.append(details);
    }
    return card;
  }));
}

// ---- settings -----------------------------------------------------------------------------------------------
let inForce = [];
function settings(config) {
  inForce = Object.entries(config.settings).map(([name, { value, source }]) => ({ name, value: text(value), source }));
  filterSettings();
}
function filterSettings() {
  const form = $("settings-ask"), words = form.words.value.toLowerCase();
  const fits = inForce.filter(s => (!form.changed.checked || s.source !== "default") && `${s.name} ${s.value}`.toLowerCase().includes(words));
  $("settings").replaceChildren(...fits.map(s => line([cell(s.name, "l"), cell(s.value, "text"), cell(s.source, "l")])));
  $("settings-note").textContent = `${whole(fits.length)} of ${plural(inForce.length, "setting")}, ${whole(inForce.filter(s => s.source !== "default").length)} set`;
}
$("settings-ask").addEventListener("input", filterSettings);
$("settings-ask").addEventListener("submit", event => event.preventDefault());

// ---- which view ---------------------------------------------------------------------------------------------
const LOOKS = {
  busy: async () => busy(await get("/top")),
  errors: async () => errors(await get("/errors")),
  "dead-letters": async () => deadLetters(await get("/dead-letters")),
  doctor: async () => doctor(await get("/doctor")),
};
function turn() {
  const { name, rest } = place();
  for (const view of VIEWS) {
    $(`view-${view}`).hidden = view !== name;
    const link = document.querySelector(`nav a[href="#${view}"]`);
    view === name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const once = { stores: async () => stores(await get("/stores"), rest), settings: async () => settings(await get("/config")) };
  if (name === "overview") follow(rest);
  (once[name] ?? LOOKS[name])?.().catch(problem => console.warn(problem));
}
addEventListener("hashchange", turn);
turn();
// How many errors and findings there are is shown in every view.
setInterval(() => { const name = place().name; for (const look of new Set([LOOKS[name], LOOKS.errors, LOOKS.doctor])) look?.().catch(() => {}); }, 2000);
