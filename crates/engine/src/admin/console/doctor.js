
// ---- doctor: what is wrong, the most serious first ------------------------------------------------------------
const SERIOUS = { critical: "bad", warning: "wait", info: "" };
const MORE = { dead_letters: ["dead-letters", "Dead letters"], left_out: ["busy", "Busy"], async_calls_fail: ["errors", "Errors"], one_busy_lane: ["busy", "Busy"], lag_grows: ["busy", "Busy"] };
let found = "";
function doctor({ findings, at_ms: now }) {
  const urgent = findings.filter(f => f.severity !== "info").length;
  $("doctor-count").hidden = urgent === 0;
  $("doctor-count").textContent = urgent;
  $("doctor-looked").textContent = findings.length ? `${plural(findings.length, "finding")}, the most serious first. It looked at ${clock(now)}.` : `Nothing was found. It looked at ${clock(now)}.`;
  // Drawn again only if something is new: a text that is marked stays marked.
  const wanted = JSON.stringify(findings);
  if (wanted === found) return;
  found = wanted;
  $("findings").replaceChildren(...findings.map(f => {
    const card = el("section", { class: `card fault ${f.severity}` }), head = el("h2"), facts = el("p", { class: "facts" });
    head.append(el("span", { class: `badge ${SERIOUS[f.severity]}` }, f.severity), ` ${f.message}`);
    const [view, title] = MORE[f.code] ?? [];
    if (view) facts.append(el("a", { href: `#${view}` }, `See ${title}`));
    facts.append(el("span", {}, f.page));
    card.append(head, el("p", {}, `Next: ${f.next_step}`), facts);
    return card;
  }));
}
