"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const shown = 300;
  const made = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const cost = (miss) =>
    Object.values(miss.stages).reduce((sum, spent) => sum + (spent || 0), 0);
  const seconds = (spent) =>
    spent >= 100 ? `${Math.round(spent).toLocaleString("en")} s`
      : spent >= 9.95 ? `${spent.toFixed(1)} s`
      : spent >= 0.01 || spent === 0 ? `${spent.toFixed(2)} s` : "under 0.01 s";

  // Places are written relative to the folder that all of the program's own lie in.
  const folders = report.misses
    .filter(({ call_site: at }) => at && !at["library"])
    .map((miss) => miss.call_site.file.split("/").slice(0, -1));
  const common = folders.length
    ? folders.reduce((found, folder) => found.filter((part, i) =>
        found.slice(0, i + 1).every((own, j) => own === folder[j]))).join("/") + "/"
    : "/";
  const shorter = (file) =>
    common !== "/" && file.startsWith(common) ? file.slice(common.length) : file;
  const misses = report.misses.map((miss) => ({
    id: miss.id,
    label: miss.label,
    cause: miss.cause,
    seconds: cost(miss),
    time: miss.time,
    line: miss.call_site ? `${shorter(miss.call_site.file)}:${miss.call_site.line}` : "",
    avoidable: miss.avoidable,
    why: miss.explanation,
  }));
  const columns = [
    ["id", (miss) => miss.id],
    ["function", (miss) => miss.label],
    ["cause", (miss) => miss.cause],
    ["seconds", (miss) => miss.seconds],
    ["avoidable", (miss) => miss.avoidable],
    ["began", (miss) => miss.time],
    ["called from", (miss) => miss.line],
  ];
  let order = "began";
  let downward = false;
  let wanted = "";

  const listMisses = () => {
    const table = document.getElementById("all");
    if (!table) return;
    const value = columns.find(([title]) => title === order)[1];
    const found = misses.filter((miss) =>
      `${miss.id} ${miss.label} ${miss.cause} ${miss.line} ${miss.why}`.toLowerCase().includes(wanted));
    found.sort((a, b) => {
      const [x, y] = downward ? [value(b), value(a)] : [value(a), value(b)];
      return x < y ? -1 : x > y ? 1 : 0;
    });
    const body = table.tBodies[0];
    body.replaceChildren(...found.slice(0, shown).map((miss) => {
      const row = made("tr");
      row.title = miss.why;
      for (const [title, of] of columns) {
        const text = title === "seconds" ? seconds(miss.seconds)
          : title === "began" ? miss.time.slice(11, 23) : of(miss);
        row.append(made("td", text, { id: "id", began: "id", seconds: "number" }[title]));
      }
      return row;
    }));
    const rest = found.length - shown;
    document.getElementById("more").textContent =
      rest > 0 ? `and ${rest.toLocaleString("en")} more: narrow them with the filter` : "";
  };

  const head = () => {
    const table = document.getElementById("all");
    if (!table) return;
    document.querySelector(".needs-script").remove();
    table.hidden = false;
    const row = made("tr");
    for (const [title] of columns) {
      const cell = made("th");
      cell.scope = "col";
      const button = made("button", title);
      button.type = "button";
      button.addEventListener("click", () => {
        downward = order === title ? !downward : title === "seconds";
        order = title;
        for (const other of row.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", downward ? "descending" : "ascending");
        listMisses();
      });
      cell.append(button);
      row.append(cell);
    }
    table.tHead.replaceChildren(row);
  };

  const filter = document.getElementById("filter");
  const narrow = () => {
    wanted = filter.value.trim().toLowerCase();
    const parts = ".message, .functions tbody tr, #small tbody tr, #eager tbody tr, #first tbody tr";
    for (const part of document.querySelectorAll(parts)) {
      part.hidden = !part.textContent.toLowerCase().includes(wanted);
    }
    listMisses();
  };

  const unfold = document.getElementById("unfold");
  unfold.addEventListener("click", () => {
    const folded = document.querySelectorAll(".message:not([open])");
    for (const message of folded) message.open = true;
    if (!folded.length) {
      for (const message of document.querySelectorAll(".message")) message.open = false;
    }
    unfold.textContent = folded.length ? "Fold all" : "Unfold all";
  });
  const reveal = () => {
    const found = location.hash && document.getElementById(location.hash.slice(1));
    if (found && found.matches("details")) found.open = true;
  };

  filter.addEventListener("input", narrow);
  addEventListener("hashchange", reveal);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== filter) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === "Escape" && document.activeElement === filter) {
      filter.value = "";
      narrow();
      filter.blur();
    }
  });
  const save = document.getElementById("save");
  if (save) save.hidden = false;
  save?.addEventListener("click", () => {
    const link = made("a");
    const text = document.getElementById("report").textContent;
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  document.querySelector(".tools").hidden = false;
  head();
  listMisses();
  reveal();
})();
