// The filter, the state in the address, keys.
const PARTS = "[data-group], [data-function], [data-step]";

const start = (data) => {
  const { misses, byId, page, text } = data;
  for (const note of document.querySelectorAll(".needs-script")) note.remove();
  const list = misses.length ? listing(data) : null;
  const fields = {
    q: $("filter"), cause: $("of-cause"), avoidable: $("of-avoidable"),
    file: $("of-file"), process: $("of-process"),
  };
  const of = {
    cause: (miss) => miss.record.cause,
    avoidable: (miss) => miss.record.avoidable,
    file: (miss) => miss.file,
    process: (miss) => miss.process,
  };
  for (const [name, value] of Object.entries(of)) {
    const number = new Map();
    for (const miss of misses) number.set(value(miss), (number.get(value(miss)) || 0) + 1);
    number.delete("");
    const any = made("option", { cause: "any cause", avoidable: "avoidable or not",
      file: "any file", process: "any process" }[name]);
    any.value = "";
    fields[name].append(any);
    for (const [each, many] of [...number].sort((a, b) => b[1] - a[1])) {
      const said = name === "avoidable" ? `avoidable: ${each}` : each;
      const option = made("option", `${said} (${many.toLocaleString("en")})`);
      option.value = each;
      fields[name].append(option);
    }
    fields[name].hidden = number.size < 2;
  }
  // The address holds the position and the filters: `#miss-a-3&cause=shape-changed`.
  let anchor = "";
  const state = () => Object.entries(fields)
    .filter(([, field]) => field.value.trim())
    .map(([name, field]) => `${name}=${encodeURIComponent(field.value.trim())}`);
  const written = () => [anchor, ...state()].filter(Boolean).join("&");
  const readAddress = () => {
    const parts = location.hash.slice(1).split("&").filter(Boolean);
    const isAnchor = parts.length > 0 && !parts[0].includes("=");
    anchor = isAnchor ? parts.shift() : "";
    // A link inside the page only names its target, and keeps the filters.
    if (isAnchor && !parts.length) return;
    const wanted = new Map(parts.map((part) => {
      const [name, ...value] = part.split("=");
      try { return [name, decodeURIComponent(value.join("="))]; } catch { return [name, ""]; }
    }));
    for (const [name, field] of Object.entries(fields)) {
      field.value = wanted.get(name) || "";
      if (field.value !== (wanted.get(name) || "")) field.value = "";
    }
  };
  const keep = () => history.replaceState(null, "", written() ? `#${written()}` : "#");

  let icicle = null;
  const narrow = () => {
    const words = fields.q.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const picked = Object.entries(of).filter(([name]) => fields[name].value);
    const [groups, owners, steps, places] = [new Set(), new Set(), new Set(), new Set()];
    let number = 0;
    for (const miss of misses) {
      miss.out = !(words.every((word) => miss.words.includes(word))
        && picked.every(([name, value]) => value(miss) === fields[name].value));
      if (miss.out) continue;
      number += 1;
      groups.add(miss.group);
      owners.add(miss.record.cause === "eager-op" ? -1 : miss.owner);
      places.add(miss.place);
      if (miss.step !== undefined) steps.add(miss.step);
    }
    const isOn = words.length + picked.length > 0;
    for (const part of document.querySelectorAll(PARTS)) {
      const { group, function: owner, step } = part.dataset;
      part.hidden = isOn && !(group !== undefined ? groups.has(Number(group))
        : owner !== undefined ? owners.has(Number(owner)) : steps.has(Number(step)));
    }
    for (const line of document.querySelectorAll("[data-line]")) {
      line.classList.toggle("out", isOn && !places.has(line.dataset.line));
    }
    for (const section of document.querySelectorAll("main section")) {
      const parts = [...section.querySelectorAll(PARTS)];
      const lines = [...section.querySelectorAll("[data-line]")];
      const nothing = isOn && ((parts.length > 0 && parts.every((part) => part.hidden))
        || (lines.length > 0 && lines.every((line) => line.classList.contains("out")))
        || (["misses", "timeline"].includes(section.id) && !number));
      section.classList.toggle("nothing", nothing);
    }
    const all = misses.length.toLocaleString("en");
    $("matching").textContent = isOn ? `${number.toLocaleString("en")} of ${all}` : "";
    $("none").hidden = !isOn || number > 0;
    $("clear").hidden = !isOn;
    list?.fill();
    icicle?.redraw();
  };
  const clear = () => {
    for (const field of Object.values(fields)) field.value = "";
    narrow();
    keep();
  };
  const arrive = () => {
    if (!anchor) return;
    const miss = anchor.startsWith("miss-") ? byId.get(anchor.slice(5)) : null;
    // The target of a link is shown, whatever the filters.
    if (miss && miss.out) clear();
    const explained = $(anchor);
    const target = (!miss || explained?.matches("details")) && explained
      ? explained : miss && list?.show(miss.record.id);
    if (!target) return;
    if (target.hidden) clear();
    for (let at = target; at; at = at.parentElement) if (at.matches("details")) at.open = true;
    target.scrollIntoView({ block: "start" });
    if (!target.matches("section, main")) {
      for (const was of document.querySelectorAll(".arrived")) was.classList.remove("arrived");
      target.classList.add("arrived");
    }
    const focused = target.matches("details") ? target.querySelector("summary") : target;
    focused.focus({ preventScroll: true });
  };
  const go = (where) => {
    if (anchor === where) { arrive(); return; }
    location.hash = where;
  };
  addEventListener("hashchange", () => { readAddress(); narrow(); keep(); arrive(); });
  for (const field of Object.values(fields)) {
    field.addEventListener("input", () => { anchor = ""; narrow(); keep(); });
  }
  $("clear").addEventListener("click", () => { clear(); fields.q.focus(); });

  const unfold = $("unfold");
  const folded = () => document.querySelectorAll(".message:not([open])");
  unfold.addEventListener("click", () => {
    const some = folded().length > 0;
    for (const message of document.querySelectorAll(".message")) message.open = some;
    unfold.textContent = some ? "Fold all" : "Unfold all";
  });
  unfold.hidden = !document.querySelector(".message");
  addEventListener("beforeprint", () => { for (const message of folded()) message.open = true; });

  // The next source line with misses, from the current position.
  const step = (by) => {
    const lines = [...document.querySelectorAll("[data-line]:not(.out)")];
    const here = lines.indexOf(document.activeElement);
    const next = here < 0 ? lines[by > 0 ? 0 : lines.length - 1] : lines[here + by];
    if (!next) return;
    next.closest("details").open = true;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "center" });
  };
  addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && event.target === fields.q) {
      clear();
      fields.q.blur();
    } else if (isTyping) {
      return;
    } else if (event.key === "/") {
      event.preventDefault();
      fields.q.focus();
    } else if (event.key === "n" || event.key === "p") {
      step(event.key === "n" ? 1 : -1);
    }
  });
  const save = $("save");
  save.hidden = false;
  save.addEventListener("click", () => {
    const link = made("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  $("filters").hidden = false;
  readAddress();
  icicle = drawIcicle(data, go);
  narrow();
  arrive();
  document.documentElement.dataset.ready = "";
};

// A browser without DecompressionStream (before 2023) shows the plain HTML of the page.
if (typeof DecompressionStream === "function") read().then(start);
