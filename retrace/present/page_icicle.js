// Time from left to right, a lane for each thread, nested traces below the enclosing trace.
const LABEL = 13;
const ROW = 26;
const AXIS = 20;
const LANE = 17;
const DEEPEST = 16;

// The layout: a slice for each miss, by lane and depth, in order of time.
const laidOut = (misses, byId) => {
  const lanes = new Map();
  const slices = new Map();
  const depthOf = (miss) => {
    const outer = miss.record.parent && !miss.record.derived ? byId.get(miss.record.parent) : null;
    return outer && outer !== miss && outer.record.run === miss.record.run
      && outer.record.thread === miss.record.thread ? outer : null;
  };
  const sliced = (miss, guard = 0) => {
    if (slices.has(miss)) return slices.get(miss);
    const outer = guard < 64 ? depthOf(miss) : null;
    const around = outer && sliced(outer, guard + 1);
    let begin = miss.begin;
    if (around) begin = Math.min(Math.max(begin, around.begin), around.end);
    let at = begin;
    const parts = [];
    STAGES.forEach((stage, number) => {
      const spent = miss.record.stages[stage];
      if (spent === null || spent === undefined) return;
      const recorded = miss.begun && miss.begun[number] !== null ? begin + miss.begun[number] : at;
      const from = Math.max(recorded, at);
      at = around ? Math.min(from + spent, around.end) : from + spent;
      parts.push({ stage, from: Math.min(from, at), to: at });
    });
    const slice = {
      miss, begin, end: at, parts, around, inside: [],
      depth: around ? Math.min(around.depth + 1, DEEPEST) : 0,
    };
    if (around) around.inside.push(slice);
    slices.set(miss, slice);
    return slice;
  };
  for (const miss of misses) {
    if (!STAGES.some((stage) => miss.record.stages[stage] !== null)) continue;
    const slice = sliced(miss);
    const key = `${miss.record.run}\n${miss.record.thread}`;
    if (!lanes.has(key)) lanes.set(key, { miss, rows: [], spent: 0 });
    const lane = lanes.get(key);
    slice.lane = lane;
    (lane.rows[slice.depth] ||= []).push(slice);
    if (!slice.depth) lane.spent += miss.seconds;
  }
  const found = [...lanes.values()];
  const runs = new Map();
  for (const { miss } of found) runs.set(miss.record.run, (runs.get(miss.record.run) || 0) + 1);
  for (const lane of found) {
    const { process, record } = lane.miss;
    const named = runs.size > 1 ? [process] : [];
    if (runs.get(record.run) > 1) named.push(record.thread);
    lane.name = named.join(", ");
    // A row for each depth, so that none is missing if a parent is in another lane.
    lane.rows = Array.from(lane.rows, (row) => row || []);
    for (const row of lane.rows) row.sort((a, b) => a.begin - b.begin || a.miss.index - b.miss.index);
    // Without stage times, a later stage would reach into the next miss.
    lane.rows[0].forEach((slice, i) => {
      const next = lane.rows[0][i + 1];
      if (slice.miss.begun || !next || next.begin <= slice.begin) return;
      slice.end = Math.min(slice.end, next.begin);
      for (const part of slice.parts) {
        part.from = Math.min(part.from, slice.end);
        part.to = Math.min(part.to, slice.end);
      }
    });
  }
  return { lanes: found, slices: [...slices.values()].filter((slice) => slice.lane) };
};

// The position of a time: to scale, or without the gaps between misses.
const clock = (slices, withoutGaps) => {
  const outer = slices.filter((slice) => !slice.around).sort((a, b) => a.begin - b.begin);
  const first = outer.length ? outer[0].begin : 0;
  if (!withoutGaps) return (at) => at - first;
  const busy = [];
  for (const { begin, end } of outer) {
    const last = busy[busy.length - 1];
    if (last && begin <= last.end) last.end = Math.max(last.end, end);
    else busy.push({ begin, end, at: last ? last.at + last.end - last.begin : 0 });
  }
  // Offsets are known once all lengths are final.
  busy.forEach((one, i) => {
    one.at = i ? busy[i - 1].at + busy[i - 1].end - busy[i - 1].begin : 0;
  });
  return (at) => {
    let low = 0;
    let high = busy.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (busy[middle].begin <= at) low = middle; else high = middle - 1;
    }
    const one = busy[low];
    return one.at + Math.min(Math.max(at - one.begin, 0), one.end - one.begin);
  };
};

const drawIcicle = ({ misses, byId }, go) => {
  const figure = $("icicle");
  if (!figure) return null;
  const { lanes, slices } = laidOut(misses, byId);
  if (!slices.length) return null;
  figure.hidden = false;
  const canvas = figure.querySelector("canvas");
  const tip = $("tip");
  const pen = canvas.getContext("2d");
  let whole = 1;
  let left = 0;
  let span = 1;
  let width = 1;
  let chosen = null;
  let waiting = false;
  let colours = {};
  let top = AXIS;
  for (const lane of lanes) {
    lane.top = top + (lane.name ? LANE : 0);
    top = lane.top + lane.rows.length * ROW + 4;
  }
  const height = top + 2;

  const recolour = () => {
    const style = getComputedStyle(document.documentElement);
    const names = ["trace", "lower", "compile", "ink", "quiet", "line", "yes", "shade", "link"];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
  };
  const place = (withoutGaps) => {
    const at = clock(slices, withoutGaps);
    whole = 0;
    for (const slice of slices) {
      slice.x0 = at(slice.begin);
      slice.x1 = at(slice.end);
      for (const part of slice.parts) [part.x0, part.x1] = [at(part.from), at(part.to)];
      whole = Math.max(whole, slice.x1);
    }
    whole ||= 1e-6;
    [left, span] = [0, whole];
  };
  const bounded = () => {
    span = Math.min(Math.max(span, whole / 1e6, 1e-6), whole);
    left = Math.min(Math.max(left, 0), whole - span);
  };
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  const zoom = (by, around = left + span / 2) => {
    const share = (around - left) / span;
    span *= by;
    bounded();
    left = around - share * span;
    bounded();
    later();
  };
  const pan = (by) => { left += by * span; bounded(); later(); };

  const axis = () => {
    const least = span / Math.max(2, width / 110);
    const ten = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((number) => number * ten).find((number) => number >= least);
    const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    pen.fillStyle = colours.quiet;
    pen.strokeStyle = colours.line;
    pen.beginPath();
    for (let at = Math.ceil(left / step) * step; at <= left + span; at += step) {
      const x = Math.round(((at - left) / span) * width) + 0.5;
      pen.moveTo(x, AXIS - 4);
      pen.lineTo(x, height);
      const said = `${at.toFixed(Math.min(places, 6))} s`;
      pen.fillText(said, Math.min(x + 3, width - pen.measureText(said).width - 1), 12);
    }
    pen.stroke();
  };
  // Whole, without its number, or cut with an ellipsis; one or two letters say nothing.
  const fitting = (label, room) => {
    const fits = (said) => pen.measureText(said).width <= room;
    if (fits(label)) return label;
    const name = label.replace(/ #\d+$/, "");
    if (fits(name)) return name;
    let long = Math.min(name.length - 1, Math.floor(room / 4));
    while (long > 2 && !fits(`${name.slice(0, long)}\u2026`)) long -= 1;
    return long > 2 ? `${name.slice(0, long)}\u2026` : "";
  };
  const draw = () => {
    const scale = devicePixelRatio || 1;
    width = canvas.clientWidth || 1;
    const wanted = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== wanted[0] || canvas.height !== wanted[1]) {
      [canvas.width, canvas.height] = wanted;
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    axis();
    const across = width / span;
    for (const lane of lanes) {
      if (lane.name) {
        pen.fillStyle = colours.quiet;
        pen.fillText(lane.name, 2, lane.top - 5);
      }
      lane.rows.forEach((row, depth) => {
        const y = lane.top + depth * ROW;
        let drawn = -1;
        let lettered = -1;
        for (const slice of row) {
          if (slice.x1 < left || slice.x0 > left + span) continue;
          const x0 = (slice.x0 - left) * across;
          const x1 = Math.max((slice.x1 - left) * across, x0 + 1);
          // Of several in one pixel, only one is visible.
          if (x1 <= drawn && slice !== chosen) continue;
          drawn = Math.ceil(x1 - 0.5);
          pen.globalAlpha = slice.miss.out ? 0.15 : 1;
          if (x1 - x0 < 3 && slice.parts.length) {
            const most = slice.parts.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
            pen.fillStyle = colours[most.stage];
            pen.fillRect(Math.floor(x0), y + LABEL, Math.max(1, Math.round(x1 - x0)), ROW - LABEL - 4);
          } else for (const part of slice.parts) {
            const from = Math.max((part.x0 - left) * across, -1);
            const to = Math.min((part.x1 - left) * across, width + 1);
            pen.fillStyle = colours[part.stage];
            pen.fillRect(from, y + LABEL, Math.max(to - from, 0.5), ROW - LABEL - 4);
          }
          if (slice.miss.record.avoidable === "yes") {
            pen.fillStyle = colours.yes;
            pen.fillRect(Math.max(x0, -1), y + ROW - 4, Math.min(x1, width + 1) - Math.max(x0, -1), 2);
          }
          const shown = Math.max(x0, 0);
          if (x1 - shown > 26 && shown >= lettered) {
            pen.fillStyle = colours.ink;
            pen.fillText(fitting(slice.miss.record.label, x1 - shown - 4), shown + 1, y + LABEL - 3);
            lettered = x1;
          }
          pen.globalAlpha = 1;
          if (slice === chosen) {
            pen.strokeStyle = colours.ink;
            pen.lineWidth = 2;
            pen.strokeRect(x0 - 1, y + LABEL - 1, x1 - x0 + 2, ROW - LABEL - 2);
            pen.lineWidth = 1;
          }
        }
      });
    }
  };

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const lane = lanes.find((one) => y >= one.top && y < one.top + one.rows.length * ROW);
    if (!lane) return null;
    const at = left + (x / width) * span;
    const near = (3 / width) * span;
    let best = null;
    for (const slice of lane.rows[Math.floor((y - lane.top) / ROW)]) {
      const off = Math.max(slice.x0 - at, at - slice.x1, 0);
      if (off <= near && (!best || off < best.off)) best = { slice, off };
    }
    return best && best.slice;
  };
  const spentOn = ({ record }) => STAGES
    .filter((stage) => record.stages[stage] !== null)
    .map((stage) => `${stage} ${seconds(record.stages[stage])}`).join(", ");
  const about = (slice, x, y) => {
    if (!slice) { tip.hidden = true; return; }
    const { miss } = slice;
    const whose = [miss.record.cause, `avoidable: ${miss.record.avoidable}`, spentOn(miss)].join(" \u00b7 ");
    tip.replaceChildren(made("strong", miss.record.label), made("div", whose),
      made("div", miss.record.explanation));
    if (miss.line) tip.append(made("div", `called from ${miss.line}`, "quiet"));
    tip.hidden = false;
    const box = figure.getBoundingClientRect();
    const room = box.width - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(x - box.left + 12, room))}px`;
    tip.style.top = `${y - box.top + 18}px`;
  };
  const choose = (slice) => {
    chosen = slice;
    const share = (slice.x1 - slice.x0) / span;
    if (slice.x0 < left || slice.x1 > left + span || share < 0.002) {
      if (share < 0.002) span = Math.max((slice.x1 - slice.x0) * 60, whole / 1e6);
      left = (slice.x0 + slice.x1) / 2 - span / 2;
      bounded();
    }
    const { miss } = slice;
    $("said").textContent =
      `${miss.record.label}, ${miss.record.cause}, ${spentOn(miss)}. ${miss.record.explanation}`;
    draw();
    const box = canvas.getBoundingClientRect();
    const y = box.top + slice.lane.top + (slice.depth + 1) * ROW;
    about(slice, box.left + Math.max(0, ((slice.x0 - left) / span) * width), y - 18);
  };

  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener("wheel", (event) => {
    const isOurs = event.ctrlKey || event.metaKey || document.activeElement === canvas;
    if (!isOurs && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / width);
      return;
    }
    const share = (event.clientX - canvas.getBoundingClientRect().left) / width;
    zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) * 0.003),
      left + share * span);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      const slice = under(event);
      canvas.classList.toggle("over", Boolean(slice));
      about(slice, event.clientX, event.clientY);
      return;
    }
    const was = pointers.get(event.pointerId);
    moved += Math.abs(event.clientX - was);
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const share = (other - canvas.getBoundingClientRect().left) / width;
      const [before, now] = [Math.abs(was - other), Math.abs(event.clientX - other)];
      if (before > 8 && now > 8) zoom(before / now, left + share * span);
    } else if (moved > 3) {
      tip.hidden = true;
      pan((was - event.clientX) / width);
    }
    pointers.set(event.pointerId, event.clientX);
  });
  const released = (event) => {
    const was = pointers.delete(event.pointerId);
    if (!was || event.type !== "pointerup" || moved > 3) return;
    const slice = under(event);
    if (!slice) return;
    // Fingers cannot hover: the first tap shows, the second opens.
    if (event.pointerType === "touch" && slice !== chosen) choose(slice);
    else { chosen = slice; later(); go(`miss-${slice.miss.record.id}`); }
  };
  canvas.addEventListener("pointerup", released);
  canvas.addEventListener("pointercancel", released);
  // A finger leaves when lifted; what it showed stays.
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") tip.hidden = true;
  });
  canvas.addEventListener("blur", () => { tip.hidden = true; });

  const beside = (slice, by) => {
    const row = slice.lane.rows[slice.depth].filter((one) => !one.miss.out || one === slice);
    return row[row.indexOf(slice) + by];
  };
  const above = (slice) => slice.around || lanes[lanes.indexOf(slice.lane) - 1]?.rows[0][0];
  const below = (slice) => slice.inside[0] || lanes[lanes.indexOf(slice.lane) + 1]?.rows[0][0];
  const firstOf = () => lanes[0].rows[0].find((slice) => !slice.miss.out) || lanes[0].rows[0][0];
  const keys = {
    ArrowRight: () => (chosen ? beside(chosen, 1) : firstOf()),
    ArrowLeft: () => (chosen ? beside(chosen, -1) : firstOf()),
    ArrowUp: () => (chosen ? above(chosen) : firstOf()),
    ArrowDown: () => (chosen ? below(chosen) : firstOf()),
    Home: firstOf,
    "+": () => zoom(0.7, chosen ? (chosen.x0 + chosen.x1) / 2 : undefined),
    "=": () => zoom(0.7),
    "-": () => zoom(1 / 0.7),
    0: () => { [left, span] = [0, whole]; later(); },
    a: () => pan(-0.2),
    d: () => pan(0.2),
    Escape: () => { tip.hidden = true; },
    Enter: () => { if (chosen) go(`miss-${chosen.miss.record.id}`); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    event.stopPropagation();
    const found = keys[event.key]();
    if (found) choose(found);
  });
  const buttons = { in: () => zoom(0.6), out: () => zoom(1 / 0.6), all: keys[0] };
  for (const button of figure.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => buttons[button.dataset.do]());
  }
  const gaps = $("gaps");
  gaps.addEventListener("change", () => { place(gaps.checked); later(); });
  const outer = slices.filter((slice) => !slice.around);
  place(false);
  // A program that ran for an hour and missed for a minute would look empty.
  gaps.checked = outer.reduce((sum, slice) => sum + slice.end - slice.begin, 0) < whole / 4;
  place(gaps.checked);
  canvas.style.height = `${height}px`;
  recolour();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { recolour(); later(); });
  // Paper is white, and printing uses what was drawn before.
  matchMedia("print").addEventListener("change", () => { recolour(); draw(); });
  new ResizeObserver(later).observe(canvas);
  draw();
  return { redraw: later, state: () => ({ left, span, whole, chosen: chosen && chosen.miss.record.id }) };
};
