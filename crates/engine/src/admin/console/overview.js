"use strict";
const $ = id => document.getElementById(id);
const SVG = document.querySelector("svg").namespaceURI;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const EVERY = 1000, KEPT = 60, SLOW_MS = 1000;

// ---- words ------------------------------------------------------------------------------------
const el = (tag, attrs = {}, text) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
};
const draw = (tag, attrs = {}, text) => {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
};
const whole = n => Math.round(n).toLocaleString("en");
const short = n => n >= 1e9 ? (n / 1e9).toFixed(1) + "G" : n >= 1e6 ? (n / 1e6).toFixed(1) + "M" : n >= 1e4 ? (n / 1e3).toFixed(1) + "k" : n >= 100 || n % 1 === 0 ? whole(n) : n.toFixed(1);
const size = n => n >= 1 << 30 ? (n / (1 << 30)).toFixed(1) + " GiB" : n >= 1 << 20 ? (n / (1 << 20)).toFixed(1) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
const took = us => us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : us >= 1e4 ? (us / 1e3).toFixed(0) + " ms" : (us / 1e3).toFixed(1) + " ms";
const span = ms => { const s = Math.floor(Math.abs(ms) / 1000); return s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min " + s % 60 + " s" : s < 172800 ? Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min" : Math.floor(s / 86400) + " days"; };
const clock = ms => new Date(ms).toLocaleTimeString("en", { hour12: false });
const moment = ms => ms === null ? "–" : new Date(ms).toISOString().replace("T", " ").replace(/\.\d+Z$/, "");
// Generated names end in ten digits, most of them zeros: the last ones tell them apart.
const brief = name => name.replace(/-0{6,8}(\d{2,4})$/, "-…$1");
const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;

// ---- rates: differences between two answers, by the engine's own clock -----------------------------
const rates = new Map();
function rate(key, count, now) {
  const old = rates.get(key);
  if (!old || count < old.count || now < old.now) { rates.set(key, { count, now, value: 0, fresh: true }); return 0; }
  if (now === old.now) return old.value;
  const present = (count - old.count) * 1000 / (now - old.now);
  // Smoothed, but what has stopped is shown as stopped.
  const value = old.fresh || (present === 0 && old.present === 0) ? present : old.value * .3 + present * .7;
  rates.set(key, { count, now, present, value: value < .05 ? 0 : value });
  return value;
}
const past = new Map();
function remember(key, value) {
  const list = past.get(key) ?? [];
  list.push(value);
  if (list.length > KEPT) list.shift();
  past.set(key, list);
  return list;
}

// ---- tiles ------------------------------------------------------------------------------------------
const tiles = new Map();
function tile(key, label, big, small, value, colour) {
  let t = tiles.get(key);
  if (!t) {
    t = { card: el("div", { class: "card tile" }), big: el("span", { class: "big" }), small: el("small") };
    const dd = el("dd");
    dd.append(t.big, el("br"), t.small);
    t.chart = draw("svg", { viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
    t.area = draw("path", { fill: colour, "fill-opacity": .13 });
    t.path = draw("path", { fill: "none", stroke: colour, "stroke-width": 1.6, "vector-effect": "non-scaling-stroke" });
    t.chart.append(t.area, t.path);
    t.card.append(el("dt", {}, label), dd, t.chart);
    $("tiles").append(t.card);
    tiles.set(key, t);
  }
  t.big.textContent = big;
  t.small.textContent = small;
  const list = remember(key, value), top = Math.max(...list, 1e-9);
  const at = i => ((i + KEPT - list.length) * 100 / (KEPT - 1)).toFixed(1);
  const line = list.map((v, i) => `${i ? "L" : "M"}${at(i)} ${(24 - 21 * v / top).toFixed(1)}`).join("");
  t.path.setAttribute("d", line);
  t.area.setAttribute("d", `${line}L100 26L${at(0)} 26Z`);
}

// ---- functions ----------------------------------------------------------------------------------------
const each = (seconds, calls) => { const us = calls ? 1e6 * seconds / calls : 0; return us < 1e3 ? `${us.toFixed(1)} µs` : took(us); };
function functions(t) {
  $("functions-card").hidden = t.functions.length === 0;
  let busy = 0;
  $("functions").replaceChildren(...t.functions.map((f, i) => {
    const row = el("tr"), a = f.async, says = a ? [`${whole(a.under_way)} under way`, `${whole(a.parked)} parked`] : [];
    if (a) for (const [n, what] of [[a.failed, "failed"], [a.timed_out, "timed out"], [a.retried, "retried"]]) if (n) says.push(`${whole(n)} ${what}`);
    const old = f.oldest_call;
    if (old && old.for_ms >= 1000) says.push(`oldest ${took(old.for_ms * 1000)}${old.key === null ? "" : ` (key ${old.key}, ${whole(old.behind)} behind)`}`);
    busy += a ? 0 : rate(`seconds ${i} ${f.function}`, 1e6 * (f.seconds + f.wait_seconds), t.monotonic_ms) / 1e6;
    row.append(el("td", { class: "l" }, f.function), el("td", { class: "l", title: f.node }, brief(f.node)), el("td", {}, whole(f.calls)), el("td", {}, short(rate(`calls ${i} ${f.function}`, f.calls, t.monotonic_ms))), el("td", {}, each(f.seconds, f.calls)), el("td", {}, each(f.wait_seconds, f.calls)), el("td", { class: "l" }, says.join(", ")));
    return row;
  }));
  $("functions-note").textContent = `${plural(t.functions.length, "function")}, ${busy.toFixed(2)} s per second in them or waiting for the interpreter`;
}

// ---- lanes -------------------------------------------------------------------------------------------
function lanes(t) {
  const room = $("lanes"), now = t.monotonic_ms;
  if (room.children.length !== t.lanes.length) {
    room.replaceChildren(...t.lanes.map(l => {
      const lane = el("div", { class: "lane" }), bars = el("div", { class: "bars" });
      for (const c of ["k-store", "k-source"]) { const bar = el("div", { class: `bar ${c}` }); bar.append(el("i")); bars.append(bar); }
      lane.append(bars, el("b", {}, l.lane));
      return lane;
    }));
    room.classList.toggle("many", t.lanes.length > 24);
  }
  const longest = Math.max(1, ...t.lanes.map(l => l.queued_bytes || l.queued_items));
  let total = 0, most = { share: -1 };
  t.lanes.forEach((l, i) => {
    const share = Math.min(1, rate(`lane ${l.lane}`, l.busy_ms, now) / 1000), queue = (l.queued_bytes || l.queued_items) / longest;
    total += share;
    if (share > most.share) most = { share, lane: l.lane };
    remember(`lane ${l.lane}`, share);
    const lane = room.children[i], [busy, waiting] = lane.querySelectorAll("i");
    busy.style.height = `${share * 100}%`;
    waiting.style.height = `${queue * 100}%`;
    lane.classList.toggle("slow", l.for_ms > SLOW_MS);
    lane.title = `lane ${l.lane}: ${l.state}${l.stage === null ? "" : ` in stage ${l.stage}`}, busy ${Math.round(share * 100)} %, epoch ${l.epoch}, queue ${plural(l.queued_items, "item")} (${size(l.queued_bytes)}), ${plural(l.records, "record")}`;
  });
  const mean = t.lanes.length ? Math.round(100 * total / t.lanes.length) : 0;
  const queued = t.lanes.reduce((a, l) => a + l.queued_items, 0), bytes = t.lanes.reduce((a, l) => a + l.queued_bytes, 0);
  $("lanes-note").textContent = `${plural(t.lanes.length, "lane")}, ${mean} % busy, ${plural(queued, "item")} (${size(bytes)}) waiting`;
  room.setAttribute("aria-label", `${plural(t.lanes.length, "lane")}, on average ${mean} percent busy; the busiest is lane ${most.lane} with ${Math.round(most.share * 100)} percent`);
  heat(t.lanes);
  const slow = t.lanes.filter(l => l.for_ms > SLOW_MS).sort((a, b) => b.for_ms - a.for_ms);
  $("slow").hidden = slow.length === 0;
  if (slow.length) $("slow").textContent = slow.slice(0, 3).map(l => `Lane ${l.lane} has been at one batch of stage ${l.stage ?? "?"} for ${(l.for_ms / 1000).toFixed(1)} s.`).join(" ") + " A slow user function holds only its own lane.";
  $("threads").replaceChildren(...t.threads.map(h => {
    const row = el("tr");
    row.append(el("td", { class: "l" }, h.name), el("td", {}, h.id), el("td", { class: "l" }, h.state), el("td", {}, h.cpu_seconds.toFixed(2)));
    return row;
  }));
}

// How busy each lane was in the last minute: a row for each lane, a column for each second.
const HEAT_ROWS = 64;
function heat(all) {
  const svg = $("heat"), rows = Math.min(HEAT_ROWS, all.length), high = Math.max(4, Math.min(14, 150 / rows)), left = 46;
  const width = Math.max(260, svg.clientWidth || 400), slot = (width - left) / KEPT, cells = svg.querySelectorAll("rect");
  if (svg.dataset.of !== `${rows} ${width}`) {
    svg.dataset.of = `${rows} ${width}`;
    svg.setAttribute("viewBox", `0 0 ${width} ${rows * high}`);
    svg.style.height = `${rows * high}px`;
    const texts = all.slice(0, rows).filter((_, i) => i % Math.ceil(11 / high) === 0).map((l, i) => draw("text", { x: left - 6, y: (i * Math.ceil(11 / high) + .5) * high + 4, "text-anchor": "end" }, `lane ${l.lane}`));
    const made = Array.from({ length: rows * KEPT }, (_, i) => {
      const at = draw("rect", { x: (left + i % KEPT * slot + slot * .04).toFixed(2), y: Math.floor(i / KEPT) * high + .5, width: (slot * .92).toFixed(2), height: high - 1, fill: "var(--teal)", "fill-opacity": 0 });
      at.append(draw("title"));
      return at;
    });
    svg.replaceChildren(...texts, ...made);
    return heat(all);
  }
  all.slice(0, rows).forEach((l, row) => {
    const list = past.get(`lane ${l.lane}`) ?? [];
    list.forEach((share, i) => {
      const at = cells[row * KEPT + KEPT - list.length + i], ago = list.length - 1 - i;
      at.setAttribute("fill-opacity", (.07 + .93 * share).toFixed(3));
      at.firstChild.textContent = `lane ${l.lane}: ${Math.round(100 * share)} % busy ${ago ? `${ago} s ago` : "now"}`;
    });
  });
  const means = all.map(l => { const list = past.get(`lane ${l.lane}`) ?? []; return { lane: l.lane, mean: list.reduce((a, b) => a + b, 0) / Math.max(1, list.length) }; });
  const most = means.reduce((a, m) => m.mean > a.mean ? m : a, { mean: -1, lane: 0 });
  svg.setAttribute("aria-label", `Last minute: lane ${most.lane} was the busiest, ${Math.round(100 * most.mean)} percent of the time`);
}

// ---- barriers ------------------------------------------------------------------------------------------
function barriers(b) {
  const arrived = b.arrivals.map(a => `${a}/${b.lanes}`).join(" · ");
  const facts = [["Open epoch", whole(b.open_epoch)], ["In flight", b.in_flight === null ? "none" : `${whole(b.in_flight)}${b.step ? ` (${b.step})` : ""}`], ["Arrivals by stage", b.in_flight === null ? "–" : arrived || "–"], ["Committed", b.committed === null ? "none" : whole(b.committed)]];
  $("phases").replaceChildren(...facts.map(([k, v]) => { const d = el("div"); d.append(el("dt", {}, k), el("dd", {}, v)); return d; }));
  const svg = $("commits"), width = Math.max(260, svg.clientWidth || 400), height = 150, left = 46, bottom = 8, top = 10;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const sum = c => c.align_us + c.commit_us + c.apply_us;
  const highest = Math.max(1000, ...b.recent.map(sum)) * 1.08, y = us => height - bottom - (height - bottom - top) * us / highest;
  const parts = [];
  const rough = highest / 3, power = 10 ** Math.floor(Math.log10(rough)), tick = power * (rough / power >= 5 ? 5 : rough / power >= 2 ? 2 : 1);
  for (let us = 0; us < highest; us += tick) {
    parts.push(draw("line", { x1: left, x2: width, y1: y(us), y2: y(us), stroke: "var(--line)" }), draw("text", { x: left - 6, y: y(us) + 4, "text-anchor": "end" }, us ? took(us) : "0"));
  }
  const slot = (width - left) / 64;
  b.recent.forEach((c, i) => {
    const x = left + (i + 64 - b.recent.length) * slot, column = draw("g");
    column.append(draw("title", {}, `epoch ${c.epoch} at ${clock(c.at_ms)}: align ${took(c.align_us)}, commit ${took(c.commit_us)}, apply ${took(c.apply_us)}; ${plural(c.records, "record")} in, ${whole(c.outputs)} written`));
    let base = 0;
    for (const [us, colour] of [[c.align_us, "blue"], [c.commit_us, "violet"], [c.apply_us, "amber"]]) {
      column.append(draw("rect", { x: x + slot * .12, width: slot * .76, y: y(base + us), height: Math.max(0, y(base) - y(base + us)), fill: `var(--${colour})` }));
      base += us;
    }
    parts.push(column);
  });
  const q = b.quantiles_us;
  for (const [name, us] of [["p50", q.p50], ["p99", q.p99]]) {
    if (!b.commits || us > highest) continue;
    parts.push(draw("line", { x1: left, x2: width, y1: y(us), y2: y(us), stroke: "var(--ink)", "stroke-dasharray": "3 4", "stroke-opacity": .75 }));
    parts.push(draw("text", { x: left + 3, y: y(us) - 4, style: "fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:3px" }, `${name} ${took(us)}`));
  }
  svg.replaceChildren(...parts);
  $("commits-note").textContent = b.commits ? `p50 ${took(q.p50)}, p99 ${took(q.p99)} of ${plural(b.commits, "commit")}` : "no commit yet";
  svg.setAttribute("aria-label", b.commits ? `Last ${b.recent.length} commits: half of all take under ${took(q.p50)}, 99 percent under ${took(q.p99)}` : "No commit yet");
}

// How long each lane took to reach the barrier: a row for each lane, a column for each commit.
function laneEnds(b) {
  const MOST = 32, svg = $("lane-ends"), rows = b.recent.length ? Math.max(...b.recent.map(c => c.lanes.length)) : 0, shown = rows > 1 && rows <= MOST;
  svg.style.display = shown ? "block" : "none";
  const ends = b.recent.flatMap(c => c.lanes.map(l => ({ ...l, epoch: c.epoch })));
  const last = ends.reduce((a, l) => !a || l.reached_us > a.reached_us ? l : a, null);
  const text = rows > 1 && last ? `Slowest to its barrier: lane ${last.lane}, ${took(last.reached_us)} in epoch ${whole(last.epoch)}` : "";
  $("lane-ends-note").hidden = !text;
  $("lane-ends-note").textContent = text;
  if (!shown) return;
  const width = Math.max(260, svg.clientWidth || 400), left = 46, cell = Math.max(6, Math.min(14, 120 / rows)), slot = (width - left) / 64, height = rows * cell;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = `${height}px`;
  const most = Math.max(1000, last.reached_us), parts = [];
  for (let lane = 0; lane < rows; lane++) {
    if (cell >= 11 || lane % Math.ceil(11 / cell) === 0) parts.push(draw("text", { x: left - 6, y: (lane + .5) * cell + 4, "text-anchor": "end" }, `lane ${lane}`));
  }
  b.recent.forEach((c, i) => c.lanes.forEach(l => {
    const at = draw("rect", { x: left + (i + 64 - b.recent.length) * slot + slot * .06, y: l.lane * cell + .5, width: slot * .88, height: cell - 1, fill: "var(--blue)", "fill-opacity": (.08 + .92 * l.reached_us / most).toFixed(3) });
    at.append(draw("title", {}, `epoch ${c.epoch}, lane ${l.lane}: reached the barrier after ${took(l.reached_us)}, passed it after ${took(l.passed_us)}, waited for other lanes ${took(l.aligned_us - l.passed_us)}, sealed in ${took(l.sealed_us - l.aligned_us)}`));
    parts.push(at);
  }));
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", text);
}

// ---- partitions, restore, life ------------------------------------------------------------------------
function partitions(w) {
  const behind = ms => `${span(Math.abs(ms))} ${ms < 0 ? "ahead of" : "behind"} the clock`;
  const time = w.application === null ? (w.minimum === null ? "" : `, minimum stream time ${moment(w.minimum)} (${behind(w.behind_ms)}), no watermark yet`) : `, watermark ${moment(w.application)} (${behind(w.lag_ms)})`;
  $("parts-note").textContent = `lag ${whole(w.lag)}${time}; time.semantics = ${w.semantics}`;
  $("late").hidden = w.late.length === 0;
  $("late").textContent = "Late: " + w.late.map(l => `${whole(l.count)} of ${l.topic} (${{ grace: "taken, each window decides", drop: "dropped", dlq: "to a dead-letter topic" }[l.policy]})`).join(", ");
  const most = Math.max(1, ...w.partitions.map(p => p.lag));
  $("parts").replaceChildren(...w.partitions.map(p => {
    const row = el("tr"), lag = el("td");
    lag.textContent = whole(p.lag);
    lag.style.background = `linear-gradient(to left, var(--red-wash) ${(100 * p.lag / most).toFixed(0)}%, transparent 0)`;
    row.append(el("td", { class: "l" }, p.topic), el("td", {}, p.partition), el("td", {}, whole(p.position)), el("td", {}, whole(p.committed)), el("td", {}, whole(p.end)), lag, el("td", {}, moment(p.stream_time)));
    const mark = el("td", {}, moment(p.watermark)), says = [];
    if (p.holds_back) { says.push("holds the others back"); mark.style.background = "var(--red-wash)"; }
    if (p.idle) says.push("idle");
    if (p.aligned_wait) says.push(`waits for ${p.group}`);
    mark.title = p.strategy;
    row.append(mark, el("td", { class: "l" }, says.join(", ")));
    return row;
  }));
}

function life(s, stores) {
  const good = s.state === "RUNNING" && s.ready.ready, bad = ["failed", "stalled"].includes(s.ready.reason);
  $("app").textContent = `${s.application_id} · ${s.version}`;
  $("badge").textContent = s.ready.reason === "stalled" ? "RUNNING, STALLED" : s.state;
  $("badge").className = `badge ${good ? "good" : bad ? "bad" : "wait"}`;
  document.title = `${s.application_id} · ${s.state} · StoatFlow`;
  const began = s.history.at(-1);
  $("age").textContent = began ? `${s.state.toLowerCase()} for ${span(s.at_ms - began.at_ms)} · process ${s.process_id}` : `process ${s.process_id}`;
  say("error", s.error && `Failed (${s.error.kind})`, s.error?.message.replace(`. Next: ${s.error.next_step}`, "."), s.error?.next_step);
  const wait = !s.ready.ready && !(s.error && s.ready.reason === "failed");
  say("unready", wait && `Not ready: ${s.ready.reason.replace("_", " ")}`, s.ready.detail, s.ready.next_step);
  const open = s.restore.filter(r => !r.complete);
  $("restore-card").hidden = open.length === 0;
  $("restore-note").textContent = `${s.restore.length - open.length} of ${plural(s.restore.length, "store")} done`;
  $("restore").replaceChildren(...s.restore.flatMap(r => {
    const share = r.complete ? 1 : r.total ? r.done / r.total : 0, id = `restore-${r.store}`;
    return [el("span", { id }, r.store), el("progress", { max: 1, value: share, "aria-labelledby": id }), el("span", { class: "note" }, r.complete ? `${whole(r.done)} records, complete` : `${whole(r.done)} of ${whole(r.total)} (${Math.floor(share * 100)} %)`)];
  }));
  const rows = s.history.map((h, i) => [h.state, clock(h.at_ms), s.history[i + 1] ? `for ${span(s.history[i + 1].at_ms - h.at_ms)}` : "now"]);
  rows.push(...stores.map(t => [`store ${t.name}`, "", t.changelog ?? "no changelog"]));
  $("life").replaceChildren(...rows.map(([a, b, c]) => { const row = el("tr"); row.append(el("td", { class: "l" }, a), el("td", {}, b), el("td", {}, c)); return row; }));
}

// An alert is announced once, when its text changes, not every second.
function say(id, title, text, next) {
  const box = $(id), wanted = title ? `${title}|${text}|${next}` : "";
  if (box.dataset.said === wanted) return;
  box.dataset.said = wanted;
  box.hidden = !title;
  if (!title) return;
  const [a, b, c] = [box.querySelector("strong"), box.querySelector(":scope > span"), box.querySelector(".next > span")];
  a.textContent = title; b.textContent = text ?? ""; c.textContent = next ?? "";
}

// ---- every second ---------------------------------------------------------------------------------------
const ask = async path => (await fetch(path, { signal: AbortSignal.timeout(4000), cache: "no-store" })).json();
let seen = null;
async function tick() {
  let answers = null;
  try {
    answers = await Promise.all(["/topology", "/debug/barriers", "/debug/threads", "/watermarks", "/state"].map(ask));
  } catch (problem) {
    console.warn(problem);
    gone();
  }
  // A mistake in drawing must not look like a dead engine: it is left to the browser's console.
  try {
    if (answers) show(...answers);
  } catch (problem) {
    console.error(problem);
  }
  setTimeout(tick, EVERY);
}
function show(t, b, h, w, s) {
  if (seen && seen.process !== s.process_id) { rates.clear(); past.clear(); trails.clear(); graph.at = null; }
  seen = { process: s.process_id, state: s.state, at: Date.now() };
  document.body.classList.remove("gone");
  say("gone", null);
  topology(t, w, h.lanes.length); functions(t); barriers(b); laneEnds(b); lanes(h); partitions(w); life(s, t.stores);
}
function gone() {
  document.body.classList.add("gone");
  const badge = $("badge"), ended = seen && ["STOPPING", "STOPPED"].includes(seen.state);
  badge.textContent = ended ? "STOPPED" : "GONE";
  badge.className = `badge ${ended ? "wait" : "bad"}`;
  const when = seen ? ` It was last seen at ${clock(seen.at)} in state ${seen.state}; the figures below are from then.` : "";
  if (ended) say("gone", "The application has stopped.", `Its process closed this port.${when}`, "start it again if it should run; this page reconnects by itself.");
  else say("gone", "The engine does not answer any more.", `The process has ended or hangs.${when}`, "look at its exit code and its last log lines, then start it again; committed results are safe, and this page reconnects by itself.");
}
tick();
