// The list of all misses, and each of them in full if a link asks for it.
const SHOWN = 300;
const COLUMNS = [
  ["id", (miss) => miss.record.id],
  // Keep a number with its noun.
  ["function", (miss) => miss.record.label.replace(/(process) (\d)/, "$1\u00a0$2")],
  ["cause", (miss) => miss.record.cause],
  ["seconds", (miss) => miss.seconds],
  ["avoidable", (miss) => miss.record.avoidable],
  ["began", (miss) => miss.record.time],
  ["called from", (miss) => miss.line],
];

const linked = (id, text) => {
  const link = made("a", text);
  link.href = `#miss-${id}`;
  return link;
};

const inFull = (miss, { byId, page }) => {
  const { record } = miss;
  const box = made("div", null, "full");
  box.append(made("p", record.explanation));
  const table = made("table");
  const row = (label, ...parts) => {
    const line = made("tr");
    const head = made(label ? "th" : "td", label);
    if (label) head.scope = "row";
    const cell = made("td");
    cell.append(...parts);
    line.append(head, cell);
    table.append(line);
  };
  record.changes.slice(0, 20).forEach((change, number) => {
    const turned = change.detail || [change.old, change.new].map((one) =>
      (typeof one === "string" ? one : JSON.stringify(one))).join(" \u2192 ");
    row(number ? "" : "changed", [change.component, change.path, turned].filter(Boolean).join("  "));
  });
  if (record.changes.length > 20) row("", `and ${record.changes.length - 20} more changes`);
  const related = (label, id) => {
    const other = id && byId.get(id);
    if (other) row(label, linked(id, other.record.label));
  };
  related("closest earlier call", record.nearest);
  related(record.derived ? `${record.derived} of` : "traced inside", record.parent);
  row("cost", STAGES.filter((stage) => record.stages[stage] !== null)
    .map((stage) => `${stage} ${seconds(record.stages[stage])}`).join(", ") || "nothing ran to its end");
  if (record.raised) row("raised", record.raised);
  if (miss.written) row("defined at", miss.written);
  if (record.call_site) {
    row("called from", `${miss.line}  `, made("code", (record.call_site.source || "").trim()));
  }
  if (miss.fix) row("fix", miss.fix);
  const anchor = page.anchors[miss.group];
  if (anchor && $(anchor)) {
    const link = made("a", "together with the misses of the same cause");
    link.href = `#${anchor}`;
    row("explained", link);
  }
  row("terminal", made("code", `retrace show ${record.id}`));
  box.append(table);
  return box;
};

const listing = (data) => {
  const table = $("all");
  const { misses, byId } = data;
  let order = "began";
  let downward = false;
  let found = misses;
  let open = null;

  const rowsOf = (miss) => {
    const row = made("tr");
    for (const [title] of COLUMNS) {
      const kind = { id: "id", began: "id", seconds: "number" }[title];
      const cell = made("td", null, kind);
      if (title === "id") cell.append(linked(miss.record.id, miss.record.id));
      else if (title === "seconds") cell.textContent = seconds(miss.seconds);
      else if (title === "began") cell.textContent = miss.record.time.slice(11, 23).replace("Z", "");
      else cell.textContent = COLUMNS.find(([one]) => one === title)[1](miss);
      row.append(cell);
    }
    if (miss !== open) return [row];
    const full = made("tr", null, "detail");
    full.id = `miss-${miss.record.id}`;
    full.tabIndex = -1;
    const cell = made("td");
    cell.colSpan = COLUMNS.length;
    cell.append(inFull(miss, data));
    full.append(cell);
    row.classList.add("opened");
    return [row, full];
  };
  const fill = () => {
    const value = COLUMNS.find(([title]) => title === order)[1];
    found = misses.filter((miss) => !miss.out);
    found.sort((a, b) => {
      const [x, y] = downward ? [value(b), value(a)] : [value(a), value(b)];
      return x < y ? -1 : x > y ? 1 : a.index - b.index;
    });
    const shown = found.slice(0, SHOWN);
    if (open && !open.out && !shown.includes(open)) shown.push(open);
    table.tBodies[0].replaceChildren(...shown.flatMap(rowsOf));
    const rest = found.length - shown.length;
    $("others").textContent = rest > 0
      ? `and ${rest.toLocaleString("en")} more: narrow them with the filter, or sort` : "";
  };
  const head = made("tr");
  for (const [title] of COLUMNS) {
    const cell = made("th");
    cell.scope = "col";
    const button = made("button", title);
    button.type = "button";
    button.addEventListener("click", () => {
      downward = order === title ? !downward : title === "seconds";
      order = title;
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", downward ? "descending" : "ascending");
      fill();
    });
    cell.append(button);
    head.append(cell);
  }
  table.tHead.replaceChildren(head);
  table.hidden = false;
  return {
    fill,
    show: (id) => {
      const miss = byId.get(id);
      if (!miss) return null;
      open = miss;
      fill();
      return $(`miss-${id}`);
    },
  };
};
