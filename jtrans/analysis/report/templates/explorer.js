/* The attention explorer: hover, tap or use the arrow keys to pick a (target, source) cell.

   Data: sentences, each with one pair per system; a pair has its pieces and its maps, each an
   array of bytes (255 is 1) in base64 with its shape. Rows of the grid are target positions,
   columns source positions; views of one sequence on itself have the same tokens on both sides. */
(function () {
  "use strict";

  const VIEWS = {
    "cell": "One cell: both attentions",
    "joint.source": "Source attention of one source token",
    "joint.target": "Target attention of one target token",
    "reduction": "Reduction weights",
    "decoder.cross": "Attention to the source",
    "decoder.self": "Decoder self-attention",
    "encoder.self": "Encoder self-attention",
    "prenet.self": "PreNet self-attention",
  };
  const HELP = {
    "cell": "Background: Reduction weights. Row of the chosen cell: where it looks in the source. " +
      "Column: where it looks among the target tokens read so far.",
    "joint.source": "Each row: where the chosen source token looks in the source, given the " +
      "target up to that row. Click a source token to choose another.",
    "joint.target": "Each column: where the chosen target position looks among the tokens read " +
      "so far, at that source token. Click a row to choose another.",
    "reduction": "Each row: how much every source token counts for the prediction.",
    "decoder.cross": "Each row: where the prediction looks in the source. Left: where it looks " +
      "among the target tokens read so far.",
    "decoder.self": "Each row: where the prediction looks among the target tokens read so far.",
    "encoder.self": "Each row: where a source token looks in the source.",
    "prenet.self": "Each row: where a source token looks in the source.",
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
    const made = document.createElement(name);
    for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function percent(value) {
    return value > 0 && value < 0.01 ? "<1 %" : Math.round(100 * value) + " %";
  }

  function strongest(values, labels, most) {
    return values
      .map((value, n) => [value, n])
      .filter((item) => item[0] > 0 && item[1] < labels.length)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1])
      .slice(0, most)
      .map((item) => labels[item[1]] + " " + percent(item[0]))
      .join(" · ") || "nothing";
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
    function weights(kind) {
      const found = mapsOf(kind);
      const map = found[Math.min(state.layer, found.length - 1)];
      if (!decoded.has(map)) decoded.set(map, new Weights(map));
      return decoded.get(map);
    }
    function has(kind) {
      return mapsOf(kind).length > 0;
    }
    function views() {
      const kinds = Array.from(new Set(pair().maps.map((map) => map.kind)));
      if (pair().is_joint) return ["cell"].concat(kinds.reverse());
      return kinds.reverse();
    }
    function layersOf(view) {
      return mapsOf(view === "cell" ? "joint.source" : view).length;
    }

    /* what the grid shows: labels, and a distribution in every row */
    function matrix() {
      const here = pair();
      const source = here.source, T = here.predicted.length;
      const rows = (count, row) => Array.from({ length: count }, (_, n) => row(n));
      if (state.view === "encoder.self" || state.view === "prenet.self") {
        const own = weights(state.view);
        return { left: source, columns: source, values: rows(source.length, (i) => own.row(i)) };
      }
      if (state.view === "decoder.self") {
        const own = weights(state.view);
        return { left: here.predicted, read: read(), columns: read(), values: rows(T, (j) => own.row(j)) };
      }
      let row;
      if (state.view === "joint.source") {
        const own = weights(state.view);
        row = (j) => own.row(j, state.column);
      } else if (state.view === "joint.target") {
        const own = weights(state.view);
        row = (j) => source.map((_, i) => own.row(i, state.row)[j]);
      } else {
        const own = weights(state.view === "cell" ? "reduction" : state.view);
        row = (j) => own.row(j);
      }
      return { left: here.predicted, read: read(), columns: source, values: rows(T, row) };
    }

    /* where a cell looks along both axes */
    function looks(row, column) {
      if (pair().is_joint) {
        return {
          source: weights("joint.source").row(row, column),
          target: weights("joint.target").row(column, row),
        };
      }
      return {
        source: weights("decoder.cross").row(row),
        target: has("decoder.self") ? weights("decoder.self").row(row) : null,
      };
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
      const isGrid = state.view === "cell" || state.view === "decoder.cross";
      const axes = isGrid ? looks(row, column) : null;
      for (let r = 0; r < lines.length; r++) {
        const cells = lines[r].cells;
        for (let c = 0; c < shown.columns.length; c++) {
          const cell = cells[c + offset];
          let value = shown.values[r][c], kind = "base";
          if (state.view === "cell") {
            kind = "faint";
            if (r === row) { value = axes.source[c]; kind = "source"; }
            else if (c === column) { value = axes.target[r]; kind = "target"; }
          } else if (state.view === "joint.source" || (isGrid && r === row)) kind = "source";
          else if (state.view === "joint.target") kind = "target";
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

    function line(name, text, kind) {
      const made = element("p");
      made.append(element("span", { "class": "key " + (kind || "") }, name), " " + text);
      return made;
    }

    function readout(row, column, shown, axes) {
      const here = pair();
      const lead = element("p");
      if (axes) {
        lead.append(
          "Predicting ", element("b", {}, here.predicted[row]),
          " after reading ", element("b", {}, read()[row]));
        if (here.is_joint) lead.append(", at source token ", element("b", {}, here.source[column]));
        const found = [lead, line("looks in the source at", strongest(axes.source, here.source, 4), "source")];
        if (axes.target) {
          found.push(line("looks in the target at", strongest(axes.target, read(), 4), "target"));
        }
        if (state.view === "cell" && has("reduction")) {
          found.push(line("Reduction: this source token counts", percent(weights("reduction").row(row)[column])));
        }
        return found;
      }
      if (state.view === "joint.target") {
        lead.append("Predicting ", element("b", {}, here.predicted[state.row]), " at source token ",
          element("b", {}, here.source[column]));
        const values = weights("joint.target").row(column, state.row);
        return [lead, line("looks in the target at", strongest(values, read(), 4), "target")];
      }
      if (state.view === "joint.source") {
        lead.append("Source token ", element("b", {}, here.source[state.column]), ", predicting ",
          element("b", {}, here.predicted[row]));
      } else lead.append(element("b", {}, shown.left[row]));
      return [lead, line("looks at", strongest(shown.values[row], shown.columns, 4),
        state.view === "joint.source" ? "source" : "")];
    }

    function draw() {
      const here = pair();
      const names = views();
      if (names.indexOf(state.view) < 0) state.view = names[0];
      const most = layersOf(state.view);
      const shown = matrix();
      const isSquare = !shown.read;
      state.row = Math.min(state.row, shown.left.length - 1);
      state.column = Math.min(state.column, shown.columns.length - 1);
      const head = element("tr");
      if (shown.read) head.append(element("th", { "class": "corner" }, "reads"));
      head.append(element("th", { "class": "corner" }, isSquare ? "" : "predicts"));
      shown.columns.forEach((label, c) => {
        const cell = element("th", { "class": "top", "data-c": c, "scope": "col" });
        cell.append(element("span", { "class": labelClass(label) }, label));
        head.append(cell);
      });
      const body = element("tbody");
      shown.left.forEach((label, r) => {
        const made = element("tr");
        if (shown.read) made.append(element("td", { "class": "read", "data-r": r }, shown.read[r]));
        made.append(element("th", { "class": "side", "data-r": r, "scope": "row" }, label));
        shown.columns.forEach((_, c) => made.append(element("td", { "class": "cell", "data-r": r, "data-c": c })));
        body.append(made);
      });
      const top = element("thead");
      top.append(head);
      table.replaceChildren(top, body);
      table.setAttribute("aria-label", VIEWS[state.view] || state.view);
      part("layers").hidden = most < 2;
      part("layer").max = most;
      part("layer").value = Math.min(state.layer, most - 1) + 1;
      part("layer-number").textContent = "layer " + part("layer").value + " of " + most;
      part("view").replaceChildren(...names.map((name) => {
        const option = element("option", { value: name }, VIEWS[name] || name);
        option.selected = name === state.view;
        return option;
      }));
      part("help").textContent = HELP[state.view] || "";
      part("source").textContent = data.sentences[state.sentence].source;
      part("translation").textContent = here.text;
      const reference = data.sentences[state.sentence].reference;
      part("reference-line").hidden = !reference;
      part("reference").textContent = reference || "";
      root.querySelectorAll("[data-system]").forEach((button) => {
        button.setAttribute("aria-pressed", String(Number(button.dataset.system) === state.system));
      });
      paint(state.row, state.column);
    }

    function choose(row, column) {
      const former = [state.row, state.column];
      if (row !== null) state.row = row;
      if (column !== null) state.column = column;
      const isSlice = state.view === "joint.source" ? former[1] !== state.column
        : state.view === "joint.target" && former[0] !== state.row;
      if (isSlice) draw(); else paint(state.row, state.column);
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
    table.addEventListener("pointerleave", () => paint(state.row, state.column));
    table.addEventListener("click", (event) => {
      const at = place(event);
      if (at) choose(at[0], at[1]);
    });
    table.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
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
