"use strict";
/* The list of sentences: embedded in the page or fetched from the viewer, drawn with one row per track. */
(() => {
  const byId = (id) => document.getElementById(id);
  const setup = JSON.parse(byId("setup").textContent);
  const PAGE_SIZE = 25, MAX_LINES = 12, MAX_EXPORTED = 10000, EXPORT_BATCH = 500;
  const FIELDS = ["text", "filter", "type", "source", "order"];
  const LABELS = { source_conflict: "sources conflict", low_confidence: "low confidence", error: "error", no_source: "predicted without any vote", differs_from_majority: "differs from majority vote", no_votes: "no votes", models_differ: "models differ" };

  /* Stores of sentences. Both return the same matches as `SentenceIndex.find` in report/sentence_index.py. */
  const lower = (text) => text.replace(/\n/g, " ").toLowerCase();
  class EmbeddedStore {
    constructor(records) { this.records = records; this.lines = []; }
    line(record) { return (this.lines[record.n] ??= lower(record.t.join(" "))); }
    matches(record, query) {
      const type = setup.types.indexOf(query.type), track = setup.tracks.findIndex(([kind, name]) => kind === "source" && name === query.source);
      if (query.filter && !(record.f >> setup.filters.indexOf(query.filter) & 1)) return false;
      if ((query.type || query.source) && !record.s.some((span) => (!query.type || span[3] === type) && (!query.source || span[0] === track))) return false;
      return !query.text || this.line(record).includes(lower(query.text));
    }
    async find(query, start, count) {
      const matches = this.records.filter((record) => this.matches(record, query));
      const key = { entropy: "e", conflict: "c" }[query.order];
      if (key) matches.sort((a, b) => b[key] - a[key] || a.n - b.n);
      return { total: matches.length, records: matches.slice(start, start + count) };
    }
    position(number) { return this.records.findIndex((record) => record.n === number); }
  }
  class RemoteStore {
    async find(query, start, count) {
      const response = await fetch("sentences?" + new URLSearchParams({ ...query, start, count }));
      if (!response.ok) throw new Error(await response.text());
      return response.json();
    }
    position(number) { return number < setup.size ? number : -1; }
  }
  const store = setup.remote ? new RemoteStore() : new EmbeddedStore(JSON.parse(byId("records").textContent));

  /* The query is kept in the URL fragment, so that a link restores it. */
  let state = { page: 0, selected: null };
  const query = () => Object.fromEntries(FIELDS.map((name) => [name, byId(name).value]));
  const fragment = () => {
    const pairs = Object.entries(query()).filter(([name, value]) => value && !(name === "order" && value === "text"));
    if (state.page) pairs.push(["page", state.page + 1]);
    return pairs.length ? "#" + new URLSearchParams(pairs) : "#sentences";
  };
  const readFragment = () => {
    if (!location.hash.includes("=")) return false;
    const params = new URLSearchParams(location.hash.slice(1));
    for (const name of FIELDS) byId(name).value = params.get(name) ?? (name === "order" ? "text" : "");
    for (const name of FIELDS.slice(1)) if (byId(name).selectedIndex < 0) byId(name).selectedIndex = 0;
    const number = parseInt(params.get("sentence"), 10), position = number >= 0 ? store.position(number) : -1;
    state = position >= 0
      ? { page: Math.floor(position / PAGE_SIZE), selected: number }
      : { page: Math.max(0, (parseInt(params.get("page"), 10) || 1) - 1), selected: null };
    return true;
  };

  /* Drawing. Text is always inserted as text, never as HTML. */
  const element = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb]/u;
  const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
  const visibleText = (text) => {
    const parts = document.createDocumentFragment();
    if (text.trim() === "") return text === "" ? element("span", { class: "ghost", title: "empty token" }, "∅") : element("span", { class: "ghost", title: "white space" }, "␣");
    let plain = "";
    for (const char of text) {
      if (!HIDDEN.test(char)) { plain += char; continue; }
      parts.append(plain, element("span", { class: "ghost" }, "U+" + char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")));
      plain = "";
    }
    parts.append(plain);
    return parts;
  };
  const canvas = document.createElement("canvas").getContext("2d");
  const tokenWidth = (token) => {
    let hidden = 0;
    for (const char of token) if (HIDDEN.test(char)) hidden += 1;
    return Math.ceil(canvas.measureText(token).width) + 42 * hidden + (token.trim() === "" ? 16 : 0) + 7;
  };
  const formatScore = (score) => score === undefined ? "" : " " + score.toFixed(2).replace(/^0/, "");
  /* A token is as wide as its text, or wider if the label of the model needs more space. */
  const tokenWidths = (record) => {
    const widths = record.t.map(tokenWidth);
    for (const [track, start, end, type, score] of record.s) {
      if (setup.tracks[track][0] !== "model") continue;
      const needed = 7 * (setup.types[type] + formatScore(score)).length + 8;
      const available = widths.slice(start, end).reduce((sum, width) => sum + width, 0);
      for (let index = start; index < end && available < needed; index += 1) widths[index] += Math.ceil((needed - available) / (end - start));
    }
    return widths;
  };
  const splitLines = (record, maxWidth) => {
    const lines = [], widths = tokenWidths(record);
    let start = 0, used = 0;
    widths.forEach((width, index) => {
      if (index > start && used + width > maxWidth) { lines.push([start, index]); start = index; used = 0; }
      used += width;
    });
    if (record.t.length) lines.push([start, record.t.length]);
    return [lines, widths];
  };
  const spanCell = ([track, start, end, type, score], lineStart, lineEnd) => {
    const name = setup.types[type], scoreText = formatScore(score);
    return element("td", {
      class: "mark" + (end > lineEnd ? " continues" : "") + (start < lineStart ? " continued" : ""), style: `--h:${setup.hues[type]}`,
      colspan: Math.min(end, lineEnd) - Math.max(start, lineStart), title: `${setup.tracks[track][1]}: ${name}${scoreText && ", probability" + scoreText}`,
    }, element("span", {}, name + scoreText));
  };
  const trackRow = (track, spans, lineStart, lineEnd) => {
    const [kind, name] = setup.tracks[track];
    const row = element("tr", { class: kind }, element("th", { scope: "row", title: name }, name));
    let position = lineStart;
    for (const span of spans) {
      const start = Math.max(span[1], lineStart);
      if (start > position) row.append(element("td", { colspan: start - position }));
      row.append(spanCell(span, lineStart, lineEnd));
      position = Math.min(span[2], lineEnd);
    }
    if (position < lineEnd) row.append(element("td", { colspan: lineEnd - position }));
    return row;
  };
  const lineTable = (record, [start, end], widths, gutter, direction) => {
    const columns = element("colgroup", {}, element("col", { style: `width:${gutter}px` }));
    const tokens = element("tr", { class: "tok" }, element("th", { scope: "row" }, "text"));
    let total = gutter;
    for (let index = start; index < end; index += 1) {
      columns.append(element("col", { style: `width:${widths[index]}px` }));
      tokens.append(element("td", { class: "word" }, element("bdi", {}, visibleText(record.t[index]))));
      total += widths[index];
    }
    const body = element("tbody", {}, tokens);
    setup.tracks.forEach((_, track) => {
      const spans = record.s.filter((span) => span[0] === track && span[1] < end && span[2] > start);
      if (spans.length) body.append(trackRow(track, spans, start, end));
    });
    return element("table", { class: "tracks", dir: direction, style: `width:${total}px` }, columns, body);
  };
  const sentenceItem = (record, width) => {
    const gutter = width < 560 ? 76 : 168;
    const [lines, widths] = splitLines(record, Math.max(width - gutter - 4, 60));
    const direction = RIGHT_TO_LEFT.test(record.t.join(" ")) ? "rtl" : "ltr";
    const meta = element("div", { class: "meta" }, element("a", { href: `#sentence=${record.n}`, title: "link to this sentence" }, `#${record.n}`));
    setup.filters.forEach((name, bit) => { if (record.f >> bit & 1) meta.append(element("span", { class: `badge ${name}` }, LABELS[name])); });
    meta.append(element("span", {}, `entropy ${record.e.toFixed(2)}`));
    const item = element("li", { class: "sentence" + (record.n === state.selected ? " selected" : ""), id: `s-${record.n}`, tabindex: "-1" }, meta);
    const appendLines = (part) => part.forEach((line) => item.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `sentence ${record.n}, tokens ${line[0] + 1} to ${line[1]}` }, lineTable(record, line, widths, gutter, direction))));
    appendLines(lines.slice(0, MAX_LINES));
    if (lines.length > MAX_LINES) {
      const more = element("button", { type: "button" }, `Show all ${record.t.length.toLocaleString("en")} tokens`);
      more.addEventListener("click", () => { more.remove(); appendLines(lines.slice(MAX_LINES)); });
      item.append(more);
    }
    if (!record.t.length) item.append(element("p", { class: "note" }, "(empty sentence)"));
    return item;
  };

  let requests = 0, current = null, width = 0;
  const draw = () => {
    const list = byId("list");
    width = list.clientWidth;
    canvas.font = "15px " + getComputedStyle(document.body).fontFamily;
    list.replaceChildren(...current.records.map((record) => sentenceItem(record, width)));
    list.setAttribute("start", state.page * PAGE_SIZE + 1);
  };
  const setBusy = (value) => byId("list").setAttribute("aria-busy", String(value));
  const show = async ({ scroll = false } = {}) => {
    const request = (requests += 1);
    let result, failure = null;
    setBusy(true);
    try { result = await store.find(query(), state.page * PAGE_SIZE, PAGE_SIZE); } catch (error) { failure = error; }
    if (request !== requests) return; /* the response to an older query must not replace a newer one */
    if (failure) { byId("count").textContent = `query failed: ${failure.message}`; setBusy(false); return; }
    if (!result.records.length && state.page) { state.page = Math.max(0, Math.ceil(result.total / PAGE_SIZE) - 1); return show({ scroll }); }
    current = result;
    draw();
    const pages = Math.max(1, Math.ceil(result.total / PAGE_SIZE));
    byId("count").textContent = `${result.total.toLocaleString("en")} of ${setup.size.toLocaleString("en")} sentences`;
    byId("page").textContent = `page ${state.page + 1} of ${pages.toLocaleString("en")}`;
    for (const id of ["previous", "previous2"]) byId(id).disabled = state.page === 0;
    for (const id of ["next", "next2"]) byId(id).disabled = state.page + 1 >= pages;
    if (state.selected !== null) focusOn(byId(`s-${state.selected}`));
    else if (scroll) byId("sentences").scrollIntoView();
    Object.assign(document.documentElement.dataset, { ready: String(request), readyAt: String(performance.now()) });
    setBusy(false);
  };
  const focusOn = (item) => { if (item) { item.focus({ preventScroll: true }); item.scrollIntoView({ block: "center", behavior: "instant" }); } };
  const update = (changes, options) => {
    Object.assign(state, { selected: null }, changes);
    history.replaceState(null, "", fragment());
    return show(options);
  };
  const changePage = (step) => { if (!byId(step > 0 ? "next" : "previous").disabled) update({ page: state.page + step }, { scroll: true }); };
  const changeSentence = (step) => {
    const items = [...document.querySelectorAll(".sentence")];
    const index = items.indexOf(document.activeElement?.closest?.(".sentence"));
    const next = items[index < 0 ? (step > 0 ? 0 : items.length - 1) : index + step];
    if (next) focusOn(next); else changePage(step);
  };

  /* One line of JSONL for doccano and `convener.read`; offsets count code points. */
  const exportLine = (record) => {
    let position = 0;
    const chars = record.t.map((token) => { const start = position, end = start + [...token].length; position = end + 1; return [start, end]; });
    const spans = record.s.filter(([track]) => setup.tracks[track][0] === "model");
    const label = spans.map(([, start, end, type]) => [chars[start][0], chars[end - 1][1], setup.types[type]]);
    return JSON.stringify({ id: record.n, text: record.t.join(" "), label, tokens: record.t, chars, entropy: record.e });
  };
  const exportList = async () => {
    const lines = [];
    for (let start = 0; start < MAX_EXPORTED; start += EXPORT_BATCH) {
      const result = await store.find(query(), start, EXPORT_BATCH);
      lines.push(...result.records.map(exportLine));
      if (start + EXPORT_BATCH >= result.total) break;
    }
    const link = element("a", { href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" })), download: "annotate-next.jsonl" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  byId("query").addEventListener("submit", (event) => event.preventDefault());
  let timer;
  byId("text").addEventListener("input", () => { setBusy(true); clearTimeout(timer); timer = setTimeout(() => update({ page: 0 }), 120); });
  for (const name of FIELDS.slice(1)) byId(name).addEventListener("change", () => update({ page: 0 }));
  for (const id of ["next", "next2"]) byId(id).addEventListener("click", () => changePage(1));
  for (const id of ["previous", "previous2"]) byId(id).addEventListener("click", () => changePage(-1));
  byId("annotate").addEventListener("click", () => { byId("order").value = "entropy"; byId("filter").value = ""; update({ page: 0 }); });
  byId("export").addEventListener("click", exportList);
  byId("reset").addEventListener("click", () => { byId("query").reset(); update({ page: 0 }); });
  window.addEventListener("hashchange", () => { if (readFragment()) show({ scroll: true }); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
    const action = { "/": () => byId("text").focus(), j: () => changeSentence(1), k: () => changeSentence(-1), n: () => changePage(1), p: () => changePage(-1) }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  new ResizeObserver(() => { if (current && byId("list").clientWidth !== width) draw(); }).observe(byId("list"));

  /* Light, dark or system theme; stored if the browser allows it. */
  const THEMES = ["system", "light", "dark"];
  const storedTheme = () => { try { return localStorage.getItem("convener-theme"); } catch { return null; } };
  const setTheme = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
    byId("theme").textContent = `◐ ${name}`;
    byId("theme").setAttribute("aria-label", `Theme: ${name}`);
    try { localStorage.setItem("convener-theme", name); } catch { /* pages opened from disk may have no storage */ }
  };
  let theme = THEMES.includes(storedTheme()) ? storedTheme() : "system";
  setTheme(theme);
  byId("theme").addEventListener("click", () => { theme = THEMES[(THEMES.indexOf(theme) + 1) % 3]; setTheme(theme); });

  const hasQuery = readFragment();
  show({ scroll: hasQuery });
})();
