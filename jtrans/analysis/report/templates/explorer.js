/* The attention explorer: hover, tap or use the arrow keys to pick a (target, source) cell.

   Data: sentences, each with one pair per system; a pair has its pieces and its maps, each an
   array of bytes (255 is 1) in base64 with its shape. The axes of a map give its type: SELF_SOURCE
   and so on below. A joint system has ALONG_SOURCE and ALONG_TARGET maps, a grid of both. */
(function () {
  "use strict";

  const BETWEEN = "target source", SELF_SOURCE = "source source", SELF_TARGET = "target target";
  const ALONG_SOURCE = "target source source", ALONG_TARGET = "source target target";
  const CELL = "cell";
  const LONGEST = 24; /* letters of a token */
  const HELP = {
    [CELL]: "Row of the selected cell: its attention over the source. Column: its attention over " +
      "the target tokens read so far. Background: the weight of each source token in the prediction.",
    [ALONG_SOURCE]: "Each row: the attention of the selected source token over the source, given the " +
      "target up to that row. Click a source token to select another.",
    [ALONG_TARGET]: "Each column: the attention of the selected target position over the tokens read " +
      "so far, at that source token. Click a row to select another.",
    [BETWEEN]: "Each row: the attention over the source when that token is predicted.",
    [SELF_TARGET]: "Each row: the attention over the target tokens read so far.",
    [SELF_SOURCE]: "Each row: the attention of that source token over the source.",
  };

  /* one map: numbers by position */
  function Weights(map) {
    const text = atob(map.data);
    const bytes = new Uint8Array(text.length);
    for (let n = 0; n < text.length; n++) bytes[n] = text.charCodeAt(n);
    const last = map.shape[map.shape.length - 1];
    const middle = map.shape[map.shape.length - 2];
    this.row = function (a, b) {
      const start = b === undefined ? a * last : (a * middle + b) * last;
      return Array.from(bytes.subarray(start, start + last), (value) => value / 255);
    };
  }

  function element(name, attributes, text) {
    const node = document.createElement(name);
    for (const key in attributes || {}) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /* text of the corpus: cut if long, and of a direction of its own */
  function isolated(label, name) {
    const letters = Array.from(label);
    const text = letters.length > LONGEST
      ? letters.slice(0, LONGEST - 8).join("") + "…" + letters.slice(-7).join("") : label;
    return element(name || "bdi", text === label ? { dir: "auto" } : { dir: "auto", title:
      letters.length.toLocaleString("en") + " letters" }, text);
  }

  function percent(value) {
    return value > 0 && value < 0.01 ? "<1 %" : Math.round(100 * value) + " %";
  }

  function strongest(values, labels, most) {
    const items = values
      .map((value, n) => [value, n])
      .filter((item) => item[0] > 0 && item[1] < labels.length)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1])
      .slice(0, most);
    if (!items.length) return ["nothing"];
    return items.flatMap((item, n) =>
      [n ? " · " : "", isolated(labels[item[1]], "b"), " " + percent(item[0])]);
  }

  /* Chinese and Japanese stay upright, letter above letter; short labels need no turning */
  function labelClass(label) {
    if (/[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]/.test(label)) return "stacked";
    return Array.from(label).length <= 2 ? "" : "turned";
  }

  function Explorer(root, data) {
    const state = { sentence: 0, system: 0, view: null, layer: 0, row: 0, column: 0 };
    const part = (name) => root.querySelector("[data-part=" + name + "]");
    const table = part("grid");
    const decoded = new Map();

    function pair() {
      return data.sentences[state.sentence].pairs[state.system];
    }
    function read() {
      return ["<s>"].concat(pair().predicted.slice(0, -1));
    }
    function mapsOf(kind) {
      return pair().maps.filter((map) => map.kind === kind);
    }
    function axesOf(kind) {
      return kind === CELL ? CELL : mapsOf(kind)[0].axes.join(" ");
    }
    /* the last kind of attention with these axes */
    function kindOf(axes) {
      const kinds = pair().maps.filter((map) => map.axes.join(" ") === axes).map((map) => map.kind);
      return kinds[kinds.length - 1];
    }
    function weights(kind) {
      const layers = mapsOf(kind);
      const map = layers[Math.min(state.layer, layers.length - 1)];
      if (!decoded.has(map)) decoded.set(map, new Weights(map));
      return decoded.get(map);
    }
    function isJoint() {
      return Boolean(kindOf(ALONG_SOURCE) && kindOf(ALONG_TARGET));
    }
    function views() {
      const kinds = Array.from(new Set(pair().maps.map((map) => map.kind))).reverse();
      return isJoint() ? [CELL].concat(kinds) : kinds;
    }
    function layersOf(view) {
      return mapsOf(view === CELL ? kindOf(ALONG_SOURCE) : view).length;
    }
    function title(view) {
      return view === CELL ? "One cell: both attentions" : mapsOf(view)[0].title;
    }

    /* what the grid shows: labels, and a distribution in every row */
    function matrix() {
      const here = pair();
      const source = here.source, T = here.predicted.length;
      const rows = (count, row) => Array.from({ length: count }, (_, n) => row(n));
      const axes = axesOf(state.view);
      const kind = axes === CELL ? kindOf(BETWEEN) : state.view;
      const own = kind ? weights(kind) : null;
      if (axes.startsWith("source") && axes !== ALONG_TARGET) {
        const columns = axes === SELF_SOURCE ? source : read();
        return { left: source, columns: columns, values: rows(source.length, (i) => own.row(i)) };
      }
      let row = (j) => (own ? own.row(j) : source.map(() => 0));
      if (axes === ALONG_SOURCE) row = (j) => own.row(j, state.column);
      if (axes === ALONG_TARGET) row = (j) => source.map((_, i) => own.row(i, state.row)[j]);
      const columns = axes === SELF_TARGET ? read() : source;
      return { left: here.predicted, read: read(), columns: columns, values: rows(T, row) };
    }

    /* what a cell attends to along both axes; null in views of only one of them */
    function looks(row, column) {
      if (state.view === CELL) {
        return {
          source: weights(kindOf(ALONG_SOURCE)).row(row, column),
          target: weights(kindOf(ALONG_TARGET)).row(column, row),
        };
      }
      if (isJoint() || axesOf(state.view) !== BETWEEN) return null;
      const own = kindOf(SELF_TARGET);
      return { source: weights(state.view).row(row), target: own ? weights(own).row(row) : null };
    }

    function shade(cell, value, kind) {
      cell.style.setProperty("--v", Math.sqrt(Math.max(0, value)).toFixed(3));
      cell.dataset.kind = kind;
    }

    function paint(row, column) {
      const shown = matrix();
      const lines = table.tBodies[0].rows;
      const heads = table.tHead.rows[0].cells;
      const offset = shown.read ? 2 : 1;
      const axes = looks(row, column);
      const shape = axesOf(state.view);
      for (let r = 0; r < lines.length; r++) {
        const cells = lines[r].cells;
        for (let c = 0; c < shown.columns.length; c++) {
          const cell = cells[c + offset];
          let value = shown.values[r][c], kind = "base";
          if (shape === CELL) {
            kind = "faint";
            if (r === row) { value = axes.source[c]; kind = "source"; }
            else if (c === column) { value = axes.target[r]; kind = "target"; }
          } else if (shape === ALONG_SOURCE || (axes && r === row)) kind = "source";
          else if (shape === ALONG_TARGET) kind = "target";
          shade(cell, value, kind);
          cell.classList.toggle("chosen", r === row && c === column);
        }
        if (shown.read) shade(cells[0], axes && axes.target ? axes.target[r] || 0 : 0, "target");
        cells[offset - 1].classList.toggle("chosen", r === row);
      }
      for (let c = 0; c < shown.columns.length; c++) {
        shade(heads[c + offset], axes ? axes.source[c] : 0, "source");
        heads[c + offset].classList.toggle("chosen", c === column);
      }
      part("readout").replaceChildren(...readout(row, column, shown, axes));
    }

    function line(name, parts, kind) {
      const paragraph = element("p");
      paragraph.append(element("span", { "class": "key " + (kind || "") }, name), " ", ...parts);
      return paragraph;
    }

    function readout(row, column, shown, axes) {
      const here = pair();
      const bold = (text) => isolated(text, "b");
      const lead = element("p");
      const lines = [lead];
      const shape = axesOf(state.view);
      if (axes) {
        lead.append("Predicting ", bold(here.predicted[row]), " after reading ", bold(read()[row]));
        if (shape === CELL) lead.append(", at source token ", bold(here.source[column]));
        lines.push(line("attends to source", strongest(axes.source, here.source, 4), "source"));
        if (axes.target) {
          lines.push(line("attends to target", strongest(axes.target, read(), 4), "target"));
        }
        if (shape === CELL && kindOf(BETWEEN)) {
          lines.push(line("weight of this source token", [percent(shown.values[row][column])]));
        }
      } else if (shape === ALONG_TARGET) {
        lead.append("Predicting ", bold(here.predicted[state.row]), " at source token ",
          bold(here.source[column]));
        const values = weights(state.view).row(column, state.row);
        lines.push(line("attends to target", strongest(values, read(), 4), "target"));
      } else {
        if (shape === ALONG_SOURCE) {
          lead.append("Source token ", bold(here.source[state.column]), ", predicting ",
            bold(here.predicted[row]));
        } else lead.append(shown.read ? "Predicting " : "Source token ", bold(shown.left[row]));
        lines.push(line("attends to", strongest(shown.values[row], shown.columns, 4),
          shape === ALONG_SOURCE ? "source" : ""));
      }
      return lines;
    }

    function rowOf(label, r, shown) {
      const row = element("tr");
      if (shown.read) {
        const read = element("td", { "class": "read", "data-r": r });
        read.append(isolated(shown.read[r]));
        row.append(read);
      }
      const side = element("th", { "class": "side", "data-r": r, "scope": "row" });
      side.append(isolated(label));
      row.append(side);
      shown.columns.forEach((_, c) => {
        row.append(element("td", { "class": "cell", "data-r": r, "data-c": c }));
      });
      return row;
    }

    function drawTable(shown) {
      const head = element("tr");
      const corner = { "class": "corner", "scope": "col" };
      if (shown.read) head.append(element("th", corner, "reads"));
      head.append(shown.read ? element("th", corner, "predicts") : element("td"));
      shown.columns.forEach((label, c) => {
        const cell = element("th", { "class": "top", "data-c": c, "scope": "col" });
        const text = isolated(label, "span");
        if (labelClass(label)) text.className = labelClass(label);
        cell.append(text);
        head.append(cell);
      });
      const top = element("thead"), body = element("tbody");
      top.append(head);
      body.append(...shown.left.map((label, r) => rowOf(label, r, shown)));
      table.replaceChildren(top, body);
      table.setAttribute("aria-label", title(state.view));
    }

    function draw() {
      const here = pair(), sentence = data.sentences[state.sentence];
      part("source").textContent = sentence.source;
      part("translation").textContent = here.text;
      part("reference-line").hidden = !sentence.reference;
      part("reference").textContent = sentence.reference;
      root.querySelectorAll("[data-system]").forEach((button) => {
        button.setAttribute("aria-pressed", String(Number(button.dataset.system) === state.system));
      });
      const names = views();
      if (names.indexOf(state.view) < 0) state.view = names[0];
      part("view").replaceChildren(...names.map((name) => {
        const option = element("option", { value: name }, title(name));
        option.selected = name === state.view;
        return option;
      }));
      const layers = layersOf(state.view);
      part("layers").hidden = layers < 2;
      part("layer").max = layers;
      part("layer").value = Math.min(state.layer, layers - 1) + 1;
      part("layer-number").textContent = "layer " + part("layer").value + " of " + layers;
      part("help").textContent = names.length ? HELP[axesOf(state.view)] || ""
        : "No attention to show for this translation of " + here.predicted.length + " tokens.";
      table.replaceChildren();
      part("readout").replaceChildren();
      if (!names.length) return;
      const shown = matrix();
      state.row = Math.min(state.row, shown.left.length - 1);
      state.column = Math.min(state.column, shown.columns.length - 1);
      drawTable(shown);
      paint(state.row, state.column);
      reveal();
    }

    /* scrolls a grid that is wider than the page to the chosen cell */
    function reveal() {
      const box = table.parentElement;
      const cell = table.querySelector(".cell.chosen");
      const start = cell.offsetLeft, end = start + cell.offsetWidth;
      const covered = table.querySelector(".side").offsetWidth; // it stays in view
      box.scrollLeft = Math.max(end - box.clientWidth, Math.min(box.scrollLeft, start - covered));
    }

    function choose(row, column) {
      const former = [state.row, state.column];
      if (row !== null) state.row = row;
      if (column !== null) state.column = column;
      const shape = axesOf(state.view);
      const isSlice = shape === ALONG_SOURCE ? former[1] !== state.column
        : shape === ALONG_TARGET && former[0] !== state.row;
      if (isSlice) { draw(); return; }
      paint(state.row, state.column);
      reveal();
    }

    function place(event) {
      const cell = event.target.closest("[data-r], [data-c]");
      if (!cell || !table.contains(cell)) return null;
      const number = (name) => (cell.dataset[name] === undefined ? null : Number(cell.dataset[name]));
      return [number("r"), number("c")];
    }

    table.addEventListener("pointerover", (event) => {
      const at = place(event);
      if (!at || event.pointerType === "touch") return;
      paint(at[0] === null ? state.row : at[0], at[1] === null ? state.column : at[1]);
    });
    table.addEventListener("pointerleave", () => {
      if (table.tBodies.length) paint(state.row, state.column);
    });
    table.addEventListener("click", (event) => {
      const at = place(event);
      if (at) choose(at[0], at[1]);
    });
    table.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step || !table.tBodies.length) return;
      event.preventDefault();
      const lines = table.tBodies[0].rows.length;
      const columns = table.tHead.rows[0].querySelectorAll(".top").length;
      choose(
        Math.max(0, Math.min(lines - 1, state.row + step[0])),
        Math.max(0, Math.min(columns - 1, state.column + step[1])));
    });
    part("layer").addEventListener("input", (event) => {
      state.layer = Number(event.target.value) - 1;
      draw();
    });
    part("view").addEventListener("change", (event) => {
      state.view = event.target.value;
      state.layer = Math.max(0, layersOf(state.view) - 1);
      draw();
    });
    function begin() {
      const here = pair();
      state.row = Math.min(here.cell[0], here.predicted.length - 1);
      state.column = Math.min(here.cell[1], here.source.length - 1);
      const names = views();
      if (names.indexOf(state.view) < 0) state.view = names[0];
      state.layer = Math.max(0, layersOf(state.view) - 1);
      draw();
    }
    part("sentence").addEventListener("change", (event) => {
      state.sentence = Number(event.target.value);
      begin();
    });
    root.querySelectorAll("[data-system]").forEach((button) => {
      button.addEventListener("click", () => {
        state.system = Number(button.dataset.system);
        begin();
      });
    });
    begin();
  }

  const holder = document.getElementById("attention-data");
  const root = document.getElementById("explorer");
  if (holder && root) Explorer(root, JSON.parse(holder.textContent));

  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((item) => { item.open = true; });
  });
})();
