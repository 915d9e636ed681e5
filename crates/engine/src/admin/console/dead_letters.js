
// ---- dead letters: the newest first; what comes from records is only ever text ------------------------------
const letters = { since: 0, cards: new Map(), next: null };
// What is nested deeper is not indented further: a record must not fill the browser with blanks.
const DEEPEST = 24;
const PARTS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
// On several lines, each part as it is written there: a parser would change large numbers.
function indented(json) {
  const lines = [""], indent = depth => "  ".repeat(Math.min(depth, DEEPEST));
  let depth = 0;
  for (const part of json.match(PARTS) ?? []) {
    if (part === "}" || part === "]") {
      depth -= 1;
      // Nothing between them: they stay together.
      lines.at(-1).trim() ? lines.push(indent(depth)) : lines.pop();
    }
    lines[lines.length - 1] += part === ":" ? ": " : part;
    if (part === "{" || part === "[") depth += 1;
    if ("{[,".includes(part)) lines.push(indent(depth));
  }
  return lines.join("\n");
}
function hex(base64) {
  const signs = atob(base64), rows = [];
  for (let at = 0; at < signs.length; at += 16) {
    const row = [...signs.slice(at, at + 16)];
    const codes = row.map(sign => sign.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
    rows.push(`${at.toString(16).padStart(4, "0")}  ${codes.padEnd(47)}  ${row.map(sign => sign >= " " && sign <= "~" ? sign : ".").join("")}`);
  }
  return rows.join("\n");
}
const written = part => part.format === "json" ? indented(part.content) : part.format === "base64" ? hex(part.content) : part.content;
function payload(name, part, why) {
  const box = el("div", { class: "payload" }), size = part && plural(part.bytes, "byte");
  const says = part === null ? why ?? "null" : part.cut ? `${size}, cut: this is the beginning` : size;
  box.append(el("h3", {}, name), el("span", { class: "note" }, says));
  if (part?.content) box.append(el("pre", { tabindex: 0, "aria-label": name }, written(part)));
  return box;
}
function unfold(title, ...parts) {
  const details = el("details");
  details.append(el("summary", {}, title), ...parts);
  return details;
}
function letter(l) {
  const card = el("section", { class: "card fault letter", "data-id": l.id }), facts = el("div", { class: "facts" });
  const from = l.topic === null ? "no record: a timer or a punctuation" : `from ${l.topic}-${l.partition}, offset ${l.offset}`;
  const says = [from, `to ${l.to}`, l.node && `node ${l.node}`, l.function, l.kind, l.attempts > 1 && `${l.attempts} attempts`, `time of the record ${moment(l.timestamp_ms)}`, `written ${moment(l.at_ms)}`];
  facts.append(...says.filter(Boolean).map(said => el("span", {}, said)));
  card.append(el("h2", {}, l.exception ?? l.kind ?? "dead letter"), el("p", {}, l.message ?? ""), facts);
  const gone = l.gone ? "the record had left its topic before the letter was written" : null;
  const headers = l.headers.map(h => payload(`header ${h.name}`, h.value));
  if (l.headers_left_out) headers.push(el("p", { class: "note" }, `and ${plural(l.headers_left_out, "header")} more`));
  card.append(unfold(`Record: key, value, ${plural(l.headers.length + l.headers_left_out, "header")}`, payload("key", l.key, gone), payload("value", l.value, gone), ...headers));
  if (l.traceback) card.append(unfold("Traceback", el("pre", { tabindex: 0 }, l.traceback)));
  return card;
}
function deadLetters(page, older) {
  const ids = page.letters.map(l => l.id), newest = Math.max(0, ...letters.cards.keys());
  // Another process, or more came than fit a page: what is shown would have a gap.
  const anew = page.since_ms !== letters.since || (!older && ids.length > 0 && ids.at(-1) > newest + 1);
  if (anew) { letters.cards.clear(); letters.since = page.since_ms; }
  if (anew || older || letters.cards.size === 0) letters.next = page.next;
  // Those that the application no longer has go here too.
  for (const id of letters.cards.keys()) if (id <= page.count - page.kept) letters.cards.delete(id);
  for (const l of page.letters) if (!letters.cards.has(l.id)) letters.cards.set(l.id, letter(l));
  // Cards that are there stay, so that what is open stays open.
  const wanted = [...letters.cards].sort(([a], [b]) => b - a).map(([, card]) => card), room = $("letters");
  if (wanted.length !== room.children.length || wanted[0] !== room.children[0]) room.replaceChildren(...wanted);
  const topics = page.topics.join(", "), since = moment(page.since_ms);
  $("letters-note").textContent = page.count ? `${plural(page.count, "dead letter")} since ${since}, the last ${page.kept} can be seen here; all are in: ${topics}` : "";
  $("letters-none").hidden = page.count > 0;
  $("letters-none").textContent = topics ? `No dead letter was written since ${since}. Those from before are in: ${topics} (stoatflow dlq list TOPIC).` : "No handler of this topology names a topic of dead letters.";
  $("letters-more").hidden = letters.next === null;
}
$("letters-more").addEventListener("click", async () => {
  try {
    if (letters.next !== null) deadLetters(await get(`/dead-letters?before=${letters.next}`), true);
  } catch (problem) {
    $("letters-note").textContent = problem.message;
  }
});
