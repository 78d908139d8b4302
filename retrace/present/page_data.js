// The misses, unpacked, and helpers for all parts of the page.
const $ = (id) => document.getElementById(id);
const made = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const seconds = (spent) =>
  spent >= 100 ? `${Math.round(spent).toLocaleString("en")} s`
    : spent >= 9.95 ? `${spent.toFixed(1)} s`
    : spent >= 0.01 || spent === 0 ? `${spent.toFixed(2)} s` : "under 0.01 s";
const STAGES = ["trace", "lower", "compile"];

const unpacked = async (id) => {
  const bytes = Uint8Array.from(atob($(id).textContent), (one) => one.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(inflated).text();
};

// With its whole path, a place's first part is empty.
const isOwnWithPath = ({ library, file }) => !library && file.split("/")[0] === "";

// Places are relative to the common folder of the program's own files.
const shortened = (misses) => {
  const folders = new Set(misses
    .filter(({ call_site: at }) => at && isOwnWithPath(at))
    .map((miss) => miss.call_site.file.split("/").slice(0, -1).join("/")));
  let common = null;
  for (const folder of folders) {
    const parts = folder.split("/");
    if (common === null) common = parts;
    let same = 0;
    while (same < common.length && common[same] === parts[same]) same += 1;
    common = common.slice(0, same);
  }
  const prefix = common && common.length > 1 ? `${common.join("/")}/` : "\0";
  return (file) => (file.startsWith(prefix) ? file.slice(prefix.length) : file);
};

const read = async () => {
  const text = await unpacked("report-data");
  const page = JSON.parse(await unpacked("page-data"));
  const report = JSON.parse(text);
  const shorter = shortened(report.misses);
  // Date keeps milliseconds, and nested traces start microseconds apart.
  const moment = (time) => {
    const [whole, part] = time.replace("Z", "").split(".");
    return Date.parse(`${whole}Z`) / 1000 + (part ? Number(`0.${part}`) : 0);
  };
  const byId = new Map();
  const stepOf = new Map();
  page.steps.forEach((ids, step) => ids.forEach((id) => stepOf.set(id, step)));
  const misses = report.misses.map((record, index) => {
    const [group, owner, place, begun] = page.rows[index];
    const at = record.call_site;
    const line = at ? `${shorter(at.file)}:${at.line}` : "";
    const written = record.function.file
      ? `${shorter(record.function.file)}:${record.function.line}` : "";
    const process = page.processes[record.run] || record.run;
    const fix = record.fix ? record.fix.text : "";
    const miss = {
      record, index, group, owner, line, written, process, fix,
      place: page.places[place] || "",
      file: at ? shorter(at.file) : "",
      step: stepOf.get(record.id),
      begun,
      begin: moment(record.time),
      seconds: STAGES.reduce((sum, stage) => sum + (record.stages[stage] || 0), 0),
      out: false,
      words: [record.id, record.label, record.cause, record.avoidable, line, written, process,
        record.explanation, fix, record.raised].join(" ").toLowerCase(),
    };
    byId.set(record.id, miss);
    return miss;
  });
  return { text, report, page, misses, byId };
};
