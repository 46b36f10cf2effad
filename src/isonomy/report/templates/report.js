"use strict";
(() => {
  const narrow = () => window.innerWidth < 620;

  /* Charts. Colors follow the page through currentColor, so light, dark and print need no second drawing. */
  const ink = {
    axis: { labelColor: "currentColor", titleColor: "currentColor", domainColor: "currentColor", tickColor: "currentColor",
            gridColor: "currentColor", gridOpacity: 0.12, domainOpacity: 0.4, tickOpacity: 0.4, titleFontWeight: 600 },
    legend: { labelColor: "currentColor", titleColor: "currentColor" },
    header: { labelColor: "currentColor", titleColor: "currentColor" },
    title: { color: "currentColor", subtitleColor: "currentColor" },
    text: { color: "currentColor" }, rule: { color: "currentColor" }, tick: { color: "currentColor" },
  };
  const font = getComputedStyle(document.body).fontFamily;

  /* Views side by side go into as many columns as there is room for. */
  const wrap = (spec, columns) => {
    if (spec.hconcat) { spec.concat = spec.hconcat; delete spec.hconcat; spec.columns = columns; }
    if (spec.concat || (spec.facet && !spec.facet.row && !spec.facet.column)) spec.columns = Math.min(spec.columns || columns, columns);
    (spec.concat || spec.vconcat || []).forEach((part) => wrap(part, columns));
    return spec;
  };
  const widest = (spec) => Math.max((spec.hconcat || spec.concat || [0]).length, ...(spec.hconcat || spec.concat || spec.vconcat || []).map(widest));

  /* On a small screen, labels next to an axis are wrapped over several lines: if they were cut, they might all look the same. */
  const lines = (text, length) => text.split(" ").reduce((parts, word) => {
    const last = parts[parts.length - 1];
    if (last !== undefined && (last + " " + word).length <= length) parts[parts.length - 1] = last + " " + word;
    else for (let at = 0; at === 0 || at < word.length; at += length) parts.push(word.slice(at, at + length));
    return parts;
  }, []);
  const texts = (value, found) => {
    if (typeof value === "string") { if (value.length > 16) found.add(value); }
    else if (value && typeof value === "object") Object.values(value).forEach((part) => texts(part, found));
    return found;
  };
  const wrapped = (spec) => {
    const long = {};
    texts([spec.data, spec.datasets], new Set()).forEach((text) => { long[text] = lines(text, 16); });
    return JSON.stringify(long) + "[datum.label] || datum.label";
  };

  /* Titles of axes and pictures too: one that is wider than the screen would lose its end. */
  const wrapTitles = (part, length) => {
    if (!part || typeof part !== "object") return;
    if (typeof part.title === "string" && part.title.length > length) part.title = lines(part.title, length);
    if (Array.isArray(part.subtitle)) {
      part.text = lines(part.text, length);
      part.subtitle = part.subtitle.flatMap((line) => lines(line, length));
    }
    Object.entries(part).forEach(([name, inner]) => { if (name !== "data" && name !== "datasets") wrapTitles(inner, length); });
  };

  const stretch = (spec, factor) => {
    if (typeof spec.height === "number") spec.height *= factor;
    (spec.hconcat || spec.concat || spec.vconcat || []).forEach((part) => stretch(part, factor));
  };

  const fit = (spec, room) => {
    const config = (spec.config = spec.config || {});
    config.font = font;
    config.axis = Object.assign({}, config.axis, { gridOpacity: 0.12 });
    if (narrow()) {
      wrapTitles(spec, 34);
      config.axis = Object.assign({}, config.axis, { labelLimit: 0, labelFontSize: 11, titleFontSize: 11 });
      config.axisY = Object.assign({}, config.axisY, { labelExpr: wrapped(spec), labelLineHeight: 12 });
      const most = Math.max(1, ...[...texts([spec.data, spec.datasets], new Set())].map((text) => lines(text, 16).length));
      if (most > 1) stretch(spec, Math.min(4, 0.85 * most));
      config.legend = Object.assign({}, config.legend, { orient: "bottom", columns: 1, labelLimit: 220 });
    }
    const faceted = spec.encoding && (spec.encoding.row || spec.encoding.column || spec.encoding.facet);
    if ((spec.mark || spec.layer) && !faceted && typeof spec.width !== "object") {
      spec.width = Math.min(room, 860);
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    return spec;
  };

  const embed = (drawing, spec) => window.vegaEmbed(drawing, spec, {
    renderer: "svg", actions: false, ast: true, config: ink, logLevel: 1,
    tooltip: { theme: window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
  });

  const draw = async (drawing) => {
    const text = document.getElementById(drawing.dataset.chart).textContent;
    const room = drawing.clientWidth;
    try {
      let columns = widest(JSON.parse(text));
      await embed(drawing, fit(JSON.parse(text), room));
      let natural = Number(drawing.querySelector("svg").getAttribute("width"));
      while (natural > room * 1.12 && columns > 1) {
        columns = Math.max(1, Math.min(columns - 1, Math.floor((columns * room) / natural)));
        await embed(drawing, wrap(fit(JSON.parse(text), room), columns));
        natural = Number(drawing.querySelector("svg").getAttribute("width"));
      }
      drawing.dataset.drawn = "yes";
      const svg = drawing.querySelector("svg");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", drawing.dataset.label);
      ["role", "aria-label", "aria-roledescription"].forEach((name) => drawing.removeAttribute(name)); /* Vega's own */
      svg.querySelectorAll("[aria-label], [role], [aria-roledescription]").forEach((part) => {
        ["aria-label", "role", "aria-roledescription"].forEach((name) => part.removeAttribute(name));
      });
    } catch (problem) {
      drawing.dataset.drawn = "no";
      drawing.textContent = "The picture could not be drawn; the table holds the same numbers.";
      console.error(problem);
    }
  };

  const drawAll = async () => {
    for (const drawing of document.querySelectorAll("[data-chart]")) await draw(drawing);
    document.documentElement.dataset.ready = "yes";
  };

  /* Tables: sort, search, download. */
  const raw = (cell) => (cell.dataset.raw !== undefined ? cell.dataset.raw : cell.textContent);

  const compare = (column, numeric) => (a, b) => {
    const left = raw(a.cells[column]), right = raw(b.cells[column]);
    if (!numeric) return left.localeCompare(right);
    const x = toNumber(left), y = toNumber(right);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return x - y;
  };
  const toNumber = (text) => (text === "" || text === "–" ? NaN : text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text.replace(/,/g, "")));

  const sort = (table, header, column) => {
    const headers = [...table.tHead.rows[0].cells];
    const up = header.getAttribute("aria-sort") !== "ascending";
    headers.forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const numeric = header.classList.contains("number");
    const order = compare(column, numeric);
    const empty = (row) => numeric && Number.isNaN(toNumber(raw(row.cells[column])));
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      if (empty(a) !== empty(b)) return empty(a) - empty(b); /* numbers that are not there come last either way */
      return up ? order(a, b) : order(b, a);
    });
    table.tBodies[0].append(...rows);
  };

  const search = (table, words, found) => {
    const wanted = words.trim().toLowerCase();
    const rows = [...table.tBodies[0].rows];
    let shown = 0;
    for (const row of rows) {
      const hit = !wanted || row.textContent.toLowerCase().includes(wanted);
      row.hidden = !hit;
      shown += hit;
    }
    found.textContent = wanted ? shown + " of " + rows.length : "";
  };

  const quoted = (text) => (/[",\n\r]/.test(text) || /^\s|\s$/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text);
  const isNothing = (text) => (text === "–" ? "" : text);

  const csv = (table) => {
    const headers = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.name);
    const lines = [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) =>
      [...row.cells].map((cell) => {
        const text = isNothing(raw(cell));
        return quoted(cell.classList.contains("number") ? text.replace(/,/g, "") : text);
      }));
    return [headers.map(quoted), ...lines].map((line) => line.join(",")).join("\r\n") + "\r\n";
  };

  const download = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + text], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  for (const card of document.querySelectorAll("[data-table]")) {
    const table = card.querySelector("table");
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, header, column));
    });
    const found = card.querySelector(".found");
    card.querySelector("input").addEventListener("input", (event) => search(table, event.target.value, found));
    const every = card.querySelector(".all-columns");
    if (every) every.addEventListener("click", () => every.setAttribute("aria-pressed", String(card.classList.toggle("every"))));
    card.querySelector(".download").addEventListener("click", () => download(card.dataset.file, csv(table)));
    card.querySelector(".tools").hidden = false;
  }

  /* Print everything, also what is folded. */
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.dataset.was = part.open ? "open" : ""; part.open = true; }));
  window.addEventListener("afterprint", () => document.querySelectorAll("details").forEach((part) => { part.open = part.dataset.was === "open"; }));

  let wide = narrow(), waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { if (wide !== narrow() || narrow()) { wide = narrow(); drawAll(); } }, 200);
  });
  drawAll();
})();
