"use strict";
/* The list of sentences: found in the page itself, or asked of the viewer; drawn in lanes. */
(() => {
  const byId = (id) => document.getElementById(id);
  const setup = JSON.parse(byId("setup").textContent);
  const PAGE = 25, MOST_LINES = 12, MOST_EXPORTED = 10000;
  const FIELDS = ["text", "odd", "type", "source", "order"];
  const LABELS = { disagreement: "sources disagree", uncertain: "uncertain", error: "error", unmarked: "found alone", vote: "unlike the vote", silent: "no marks", models: "models differ" };

  /* Where sentences come from. Both find the same: `report/sheet.py` says what is asked. */
  const lower = (text) => text.replace(/\n/g, " ").toLowerCase();
  class Here {
    constructor(records) { this.records = records; this.lines = []; }
    line(record) { return (this.lines[record.n] ??= lower(record.t.join(" "))); }
    fits(record, query) {
      const kind = setup.types.indexOf(query.type), lane = setup.lanes.findIndex(([what, name]) => what === "source" && name === query.source);
      if (query.odd && !(record.f >> setup.odd.indexOf(query.odd) & 1)) return false;
      if ((query.type || query.source) && !record.s.some((span) => (!query.type || span[3] === kind) && (!query.source || span[0] === lane))) return false;
      return !query.text || this.line(record).includes(lower(query.text));
    }
    async find(query, start, count) {
      const found = this.records.filter((record) => this.fits(record, query));
      const figure = { entropy: "e", conflict: "c" }[query.order];
      if (figure) found.sort((a, b) => b[figure] - a[figure] || a.n - b.n);
      return { total: found.length, records: found.slice(start, start + count) };
    }
    place(number) { return this.records.findIndex((record) => record.n === number); }
  }
  class There {
    async find(query, start, count) {
      const answer = await fetch("sentences?" + new URLSearchParams({ ...query, start, count }));
      if (!answer.ok) throw new Error(await answer.text());
      return answer.json();
    }
    place(number) { return number < setup.size ? number : -1; }
  }
  const store = setup.remote ? new There() : new Here(JSON.parse(byId("records").textContent));

  /* What is asked for lives in the address, so that it can be sent to somebody. */
  let state = { page: 0, chosen: null };
  const query = () => Object.fromEntries(FIELDS.map((name) => [name, byId(name).value]));
  const address = () => {
    const pairs = Object.entries(query()).filter(([name, value]) => value && !(name === "order" && value === "text"));
    if (state.page) pairs.push(["page", state.page + 1]);
    return pairs.length ? "#" + new URLSearchParams(pairs) : "#sentences";
  };
  const readAddress = () => {
    if (!location.hash.includes("=")) return false;
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of FIELDS) byId(name).value = given.get(name) ?? (name === "order" ? "text" : "");
    for (const name of FIELDS.slice(1)) if (byId(name).selectedIndex < 0) byId(name).selectedIndex = 0;
    const number = parseInt(given.get("sentence"), 10), place = number >= 0 ? store.place(number) : -1;
    state = place >= 0
      ? { page: Math.floor(place / PAGE), chosen: number }
      : { page: Math.max(0, (parseInt(given.get("page"), 10) || 1) - 1), chosen: null };
    return true;
  };

  /* Drawing. Text is only ever set as text, never as HTML. */
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb]/u;
  const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
  const shown = (text) => {
    const parts = document.createDocumentFragment();
    if (text.trim() === "" ) return text === "" ? element("span", { class: "ghost", title: "an empty token" }, "∅") : element("span", { class: "ghost", title: "blanks" }, "␣");
    let plain = "";
    for (const char of text) {
      if (!HIDDEN.test(char)) { plain += char; continue; }
      parts.append(plain, element("span", { class: "ghost" }, "U+" + char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")));
      plain = "";
    }
    parts.append(plain);
    return parts;
  };
  const pencil = document.createElement("canvas").getContext("2d");
  const widthOf = (word) => {
    let hidden = 0;
    for (const char of word) if (HIDDEN.test(char)) hidden += 1;
    return Math.ceil(pencil.measureText(word).width) + 42 * hidden + (word.trim() === "" ? 16 : 0) + 7;
  };
  const sureness = (score) => score === undefined ? "" : " " + score.toFixed(2).replace(/^0/, "");
  /* Words are as wide as they are written, or as what the model says of them. */
  const widthsOf = (record) => {
    const widths = record.t.map(widthOf);
    for (const [lane, start, end, type, score] of record.s) {
      if (setup.lanes[lane][0] !== "model") continue;
      const needed = 7 * (setup.types[type] + sureness(score)).length + 8;
      const there = widths.slice(start, end).reduce((sum, width) => sum + width, 0);
      for (let at = start; at < end && there < needed; at += 1) widths[at] += Math.ceil((needed - there) / (end - start));
    }
    return widths;
  };
  const linesOf = (record, room) => {
    const lines = [], widths = widthsOf(record);
    let begin = 0, used = 0;
    widths.forEach((width, at) => {
      if (at > begin && used + width > room) { lines.push([begin, at]); begin = at; used = 0; }
      used += width;
    });
    if (record.t.length) lines.push([begin, record.t.length]);
    return [lines, widths];
  };
  const markCell = (span, begin, end) => {
    const [lane, start, stop, type, score] = span, name = setup.types[type];
    const sure = sureness(score);
    const cell = element("td", {
      class: "mark" + (stop > end ? " on" : "") + (start < begin ? " from" : ""), style: `--h:${setup.hues[type]}`,
      colspan: Math.min(stop, end) - Math.max(start, begin), title: `${setup.lanes[lane][1]}: ${name}${sure && ", probability" + sure}`,
    }, element("span", {}, name + sure));
    return cell;
  };
  const laneRow = (number, spans, begin, end) => {
    const [kind, name] = setup.lanes[number];
    const row = element("tr", { class: kind }, element("th", { scope: "row", title: name }, name));
    let at = begin;
    for (const span of spans) {
      const from = Math.max(span[1], begin);
      if (from > at) row.append(element("td", { colspan: from - at }));
      row.append(markCell(span, begin, end));
      at = Math.min(span[2], end);
    }
    if (at < end) row.append(element("td", { colspan: end - at }));
    return row;
  };
  const lineTable = (record, [begin, end], widths, gutter, direction) => {
    const columns = element("colgroup", {}, element("col", { style: `width:${gutter}px` }));
    const words = element("tr", { class: "tok" }, element("th", { scope: "row" }, "text"));
    let total = gutter;
    for (let at = begin; at < end; at += 1) {
      columns.append(element("col", { style: `width:${widths[at]}px` }));
      words.append(element("td", { class: "word" }, element("bdi", {}, shown(record.t[at]))));
      total += widths[at];
    }
    const body = element("tbody", {}, words);
    setup.lanes.forEach((_, number) => {
      const spans = record.s.filter((span) => span[0] === number && span[1] < end && span[2] > begin);
      if (spans.length) body.append(laneRow(number, spans, begin, end));
    });
    return element("table", { class: "lanes", dir: direction, style: `width:${total}px` }, columns, body);
  };
  const drawn = (record, width) => {
    const gutter = width < 560 ? 76 : 168;
    const [lines, widths] = linesOf(record, Math.max(width - gutter - 4, 60));
    const direction = RIGHT_TO_LEFT.test(record.t.join(" ")) ? "rtl" : "ltr";
    const meta = element("div", { class: "meta" }, element("a", { href: `#sentence=${record.n}`, title: "a link to this sentence" }, `#${record.n}`));
    setup.odd.forEach((name, bit) => { if (record.f >> bit & 1) meta.append(element("span", { class: `badge ${name}` }, LABELS[name])); });
    meta.append(element("span", {}, `entropy ${record.e.toFixed(2)}`));
    const item = element("li", { class: "sentence" + (record.n === state.chosen ? " chosen" : ""), id: `s-${record.n}`, tabindex: "-1" }, meta);
    const put = (some) => some.forEach((line) => item.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `sentence ${record.n}, words ${line[0] + 1} to ${line[1]}` }, lineTable(record, line, widths, gutter, direction))));
    put(lines.slice(0, MOST_LINES));
    if (lines.length > MOST_LINES) {
      const more = element("button", { type: "button" }, `Show all ${record.t.length.toLocaleString("en")} words`);
      more.addEventListener("click", () => { more.remove(); put(lines.slice(MOST_LINES)); });
      item.append(more);
    }
    if (!record.t.length) item.append(element("p", { class: "note" }, "(an empty sentence)"));
    return item;
  };

  let asked = 0, last = null, width = 0;
  const draw = () => {
    const list = byId("list");
    width = list.clientWidth;
    pencil.font = "15px " + getComputedStyle(document.body).fontFamily;
    list.replaceChildren(...last.records.map((record) => drawn(record, width)));
    list.setAttribute("start", state.page * PAGE + 1);
  };
  const busy = (value) => byId("list").setAttribute("aria-busy", String(value));
  const show = async ({ scroll = false } = {}) => {
    const request = (asked += 1);
    let found, failure = null;
    busy(true);
    try { found = await store.find(query(), state.page * PAGE, PAGE); } catch (error) { failure = error; }
    if (request !== asked) return; /* an answer to an older query must not replace a newer one */
    if (failure) { byId("count").textContent = `not answered: ${failure.message}`; busy(false); return; }
    if (!found.records.length && state.page) { state.page = Math.max(0, Math.ceil(found.total / PAGE) - 1); return show({ scroll }); }
    last = found;
    draw();
    const pages = Math.max(1, Math.ceil(found.total / PAGE));
    byId("count").textContent = `${found.total.toLocaleString("en")} of ${setup.size.toLocaleString("en")} sentences`;
    byId("page").textContent = `page ${state.page + 1} of ${pages.toLocaleString("en")}`;
    for (const id of ["previous", "previous2"]) byId(id).disabled = state.page === 0;
    for (const id of ["next", "next2"]) byId(id).disabled = state.page + 1 >= pages;
    if (state.chosen !== null) focusOn(byId(`s-${state.chosen}`));
    else if (scroll) byId("sentences").scrollIntoView();
    Object.assign(document.documentElement.dataset, { ready: String(request), readyAt: String(performance.now()) });
    busy(false);
  };
  const focusOn = (item) => { if (item) { item.focus({ preventScroll: true }); item.scrollIntoView({ block: "center", behavior: "instant" }); } };
  const go = (changes, options) => {
    Object.assign(state, { chosen: null }, changes);
    history.replaceState(null, "", address());
    return show(options);
  };
  const turn = (by) => { if (!byId(by > 0 ? "next" : "previous").disabled) go({ page: state.page + by }, { scroll: true }); };
  const step = (by) => {
    const items = [...document.querySelectorAll(".sentence")];
    const at = items.indexOf(document.activeElement?.closest?.(".sentence"));
    const next = items[at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by];
    if (next) focusOn(next); else turn(by);
  };

  /* As doccano reads it, and `convener` too: characters are counted as code points. */
  const lineOf = (record) => {
    let at = 0;
    const chars = record.t.map((word) => { const begin = at, end = begin + [...word].length; at = end + 1; return [begin, end]; });
    const spans = record.s.filter(([lane]) => setup.lanes[lane][0] === "model");
    const label = spans.map(([, start, end, type]) => [chars[start][0], chars[end - 1][1], setup.types[type]]);
    return JSON.stringify({ id: record.n, text: record.t.join(" "), label, tokens: record.t, chars, entropy: record.e });
  };
  const exportList = async () => {
    const lines = [];
    for (let start = 0; start < MOST_EXPORTED; start += 500) {
      const found = await store.find(query(), start, 500);
      lines.push(...found.records.map(lineOf));
      if (start + 500 >= found.total) break;
    }
    const link = element("a", { href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" })), download: "annotate-next.jsonl" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  byId("query").addEventListener("submit", (event) => event.preventDefault());
  let typing;
  byId("text").addEventListener("input", () => { busy(true); clearTimeout(typing); typing = setTimeout(() => go({ page: 0 }), 120); });
  for (const name of FIELDS.slice(1)) byId(name).addEventListener("change", () => go({ page: 0 }));
  for (const id of ["next", "next2"]) byId(id).addEventListener("click", () => turn(1));
  for (const id of ["previous", "previous2"]) byId(id).addEventListener("click", () => turn(-1));
  byId("annotate").addEventListener("click", () => { byId("order").value = "entropy"; byId("odd").value = ""; go({ page: 0 }); });
  byId("export").addEventListener("click", exportList);
  byId("reset").addEventListener("click", () => { byId("query").reset(); go({ page: 0 }); });
  window.addEventListener("hashchange", () => { if (readAddress()) show({ scroll: true }); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
    const act = { "/": () => byId("text").focus(), j: () => step(1), k: () => step(-1), n: () => turn(1), p: () => turn(-1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  new ResizeObserver(() => { if (last && byId("list").clientWidth !== width) draw(); }).observe(byId("list"));

  /* Light, dark, or as the system has it; kept where the browser lets us. */
  const THEMES = ["system", "light", "dark"];
  const remembered = () => { try { return localStorage.getItem("convener-theme"); } catch { return null; } };
  const setTheme = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
    byId("theme").textContent = `◐ ${name}`;
    byId("theme").setAttribute("aria-label", `Theme: ${name}`);
    try { localStorage.setItem("convener-theme", name); } catch { /* a page opened from disk may not keep anything */ }
  };
  let theme = THEMES.includes(remembered()) ? remembered() : "system";
  setTheme(theme);
  byId("theme").addEventListener("click", () => { theme = THEMES[(THEMES.indexOf(theme) + 1) % 3]; setTheme(theme); });

  const linked = readAddress();
  show({ scroll: linked });
})();
