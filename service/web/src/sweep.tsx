// A sweep: full searches over several sizes and machines, what they give and what they cost.
import { useCallback } from "preact/hooks";
import { Chart } from "./chart";
import { save } from "./exports";
import { count, percent, seconds } from "./format";
import { said, t } from "./i18n";
import { isOver, useJob } from "./jobs";
import { link, setQuery, useRoute } from "./router";
import { AskSweep } from "./sweep_ask";
import { against, overAxis } from "./sweep_charts";
import { axesOf, bestBy, csvOf, isPlanned, measures, placeOf, type Measure, type Point, type Swept } from "./sweep_points";
import { Choice, Failure, Kpi, Panel, Segments, Table, type Column } from "./ui";

export function Sweep(props: { job: string | undefined }) {
  return props.job ? <Answer id={props.job} /> : <AskSweep />;
}

function Answer(props: { id: string }) {
  const { job, progress, error } = useJob(props.id);
  const swept = job?.result as Swept | null | undefined;
  const name = swept?.model ?? props.id.slice(0, 14);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Sweep")} {name}</h1>
        {swept && <button onClick={() => save(new Blob([csvOf(swept.points)], { type: "text/csv" }), `${swept.model}-sweep.csv`)}>{t("Save the table (CSV)")}</button>}
        <span class={`state ${job?.state ?? ""}`}>{t(job?.state ?? "")}</span></div>
      {error && <Failure error={error} />}
      {job?.message && <div class="note error" role="alert">{said(job.message)}</div>}
      {!isOver(job) && <p class="mono" role="status">{said(progress.lines.at(-1) ?? "") || t("Waiting for the first report.")}</p>}
      {swept?.points.length ? <Found swept={swept} model={String(job?.request?.model ?? "")} /> : null}
    </>
  );
}

/** Axes with more than one value; where nothing varies the devices. */
function variedOf(swept: Swept): string[] {
  const found = axesOf(swept).filter((name) => swept.axes[name]!.length > 1);
  return found.length ? found : ["devices"];
}

function Found(props: { swept: Swept; model: string }) {
  const { swept } = props;
  const varied = variedOf(swept);
  const known = measures(swept.points);
  return (
    <>
      <Best swept={swept} known={known} varied={varied} />
      {swept.deadline && <p class="note">{inTime(swept, varied)}</p>}
      <div class="grid">
        {Object.keys(known).length > 0 && <OverAxis swept={swept} known={known} varied={varied} />}
        {Object.keys(known).length > 1 && <Front swept={swept} known={known} varied={varied} />}
        <Panel width="w12" title={t("Points")}>
          <Points swept={swept} known={known} model={props.model} />
          {!known.price && <p class="soft">{t("No price is known of these devices: a sweep takes prices where it is asked for.")}</p>}
          <p class="soft">{t("Marked points are best in time, devices, memory or price: no other is better in all of them.")}</p>
        </Panel>
        <Scaling swept={swept} varied={varied} />
        <Changes swept={swept} varied={varied} />
      </div>
    </>
  );
}

type Part = { swept: Swept; known: Record<string, Measure>; varied: string[] };

/** The best point of each kind. */
function Best({ swept, known, varied }: Part) {
  const kinds: [string, string][] = [["speed", t("highest throughput")], ["price", t("cheapest")], ["energy", t("least energy")]];
  const first = kinds.flatMap(([name, title]): [string, Measure, Point][] => {
    const point = known[name] && bestBy(swept.points, known[name]);
    return point ? [[title, known[name]!, point]] : [];
  });
  if (!first.length) return <p class="bad" role="status">{t("Nothing fits into memory.")}</p>;
  return (
    <div class="kpis">
      {first.map(([title, measure, point]) => <Kpi key={title} value={measure.format(measure.of(point)!)} name={`${title}: ${measure.title}; ${placeOf(point, varied)}`} />)}
      <Kpi value={count(swept.searches)} name={t("searches")} />
    </div>
  );
}

function inTime(swept: Swept, varied: string[]): string {
  const { tokens, days, point, takes_days, needed_devices } = swept.deadline!;
  const wanted = `${count(tokens)} ${t("in")} ${count(days)} ${t("days")}`;
  if (point === null) return `${wanted}: ${t("no point does it; the fastest takes")} ${count(takes_days)} ${t("days")}${needed_devices ? `; ${t("devices it would take:")} ${count(needed_devices)}` : ""}`;
  return `${wanted}: ${placeOf(swept.points[point]!, varied)}, ${t("done in")} ${count(takes_days)} ${t("days")}`;
}

/** What is chosen in the address, if it is there to choose. */
function chosen(query: URLSearchParams, name: string, among: string[], usual: string): string {
  const asked = query.get(name) ?? usual;
  return among.includes(asked) ? asked : (among.includes(usual) ? usual : among[0]!);
}

/** A measure over an axis; both are in the address. */
function OverAxis({ swept, known, varied }: Part) {
  const { query } = useRoute();
  const axes = varied.filter((name) => name !== "cluster");
  const by = chosen(query, "over", axes.length ? axes : ["devices"], "devices");
  const what = chosen(query, "show", Object.keys(known), "speed");
  const option = useCallback(() => overAxis(swept.points, by, known[what]!), [swept, by, what]);
  const title = `${known[what]!.title} / ${t(by)}`;
  return (
    <Panel width="w6" title={title}>
      <div class="row">
        <Choice label={t("measure")} value={what} options={titles(known)} change={(show) => setQuery({ show })} />
        {axes.length > 1 && <Segments label={t("over")} value={by} options={axes.map((each) => [each, t(each)])} change={(over) => setQuery({ over })} />}
      </div>
      <Chart option={option} height={300} label={title} />
    </Panel>
  );
}

/** Two measures against each other, with the points that no other beats. */
function Front({ swept, known, varied }: Part) {
  const { query } = useRoute();
  const names = Object.keys(known);
  const across = chosen(query, "across", names, known.price ? "price" : "memory");
  const up = chosen(query, "up", names, "speed");
  const option = useCallback(() => against(swept.points, new Set(swept.pareto), varied, known[across]!, known[up]!), [swept, across, up]);
  return (
    <Panel width="w6" title={t("Pareto front")} extra={<span class="soft">{t("outlined: no other point beats it")}</span>}>
      <div class="row">
        <Choice label={t("across")} value={across} options={titles(known)} change={(name) => setQuery({ across: name })} />
        <Choice label={t("up")} value={up} options={titles(known)} change={(name) => setQuery({ up: name })} />
      </div>
      <Chart option={option} height={300} label={t("Pareto front")} />
    </Panel>
  );
}

function titles(known: Record<string, Measure>): [string, string][] {
  return Object.entries(known).map(([name, measure]) => [name, measure.title]);
}

function Points(props: { swept: Swept; known: Record<string, Measure>; model: string }) {
  const { swept, known } = props;
  const front = new Set(swept.pareto.map((at) => swept.points[at]!));
  const columns: Column<Point>[] = [
    ...axesOf(swept).map((name) => ({
      key: name, title: t(name), right: name !== "cluster", sort: (row: Point) => row[name] ?? 0, show: (row: Point) => cell(row[name]),
    })),
    ...Object.entries(known).filter(([name]) => name !== "devices").map(([name, measure]) => ({
      key: `of ${name}`, title: measure.title, right: true, sort: (row: Point) => measure.of(row) ?? Infinity,
      show: (row: Point) => (measure.of(row) === null ? "–" : measure.format(measure.of(row)!)),
    })),
    ...(swept.points.some((point) => typeof point.upper_s === "number") ? intervals() : []),
    { key: "plan", title: t("plan"), name: true, show: (row) => (isPlanned(row) ? row.plan : said(String(row.message ?? ""))) },
    { key: "again", title: "", show: (row) => searchable(swept, row) && <a href={link(["new"], requestAt(row, props.model, swept.model))}>{t("Search there")}</a> },
  ];
  return <Table<Point> label={t("Points")} rows={swept.points} id={(row) => String(swept.points.indexOf(row))} isMarked={(row) => front.has(row)} columns={columns} />;
}

/** What comparable runs take at a point, and by what points are ranked. */
function intervals(): Column<Point>[] {
  const time = (value: number | string | null | undefined) => (typeof value === "number" ? seconds(value) : "–");
  return [
    { key: "interval", title: t("90 % of comparable published runs"), right: true, sort: (row) => row.low_s ?? Infinity, show: (row) => `${time(row.low_s)} – ${time(row.high_s)}` },
    { key: "upper", title: t("75th percentile"), right: true, sort: (row) => row.upper_s ?? Infinity, show: (row) => time(row.upper_s) },
  ];
}

/** Whether a search can be asked for the point: no factor changes its machine. */
function searchable(swept: Swept, point: Point): boolean {
  return isPlanned(point) && Object.keys(swept.axes).every((name) => ["cluster", "devices", "batch", "sequence"].includes(name) || point[name] === 1);
}

function requestAt(point: Point, model: string, name: string): Record<string, string | undefined> {
  const own = (key: string) => (point[key] === null || point[key] === undefined ? undefined : String(point[key]));
  return { model, name, cluster: own("cluster"), devices: own("devices"), batch: own("batch"), sequence: own("sequence") };
}

function cell(value: number | string | null | undefined): string {
  return typeof value === "number" ? count(value) : (value ?? "–");
}

function Scaling({ swept, varied }: Omit<Part, "known">) {
  const others = varied.filter((name) => name !== "devices");
  const rows = swept.scaling.filter(({ points }) => points.length > 1).flatMap(({ at, points }) => points.map((point) => ({ place: placeOf(at, others), ...point })));
  if (!rows.length) return null;
  return (
    <Panel width="w6" title={t("Scaling")}>
      <Table<(typeof rows)[number]> label={t("Scaling")} rows={rows} id={(row) => `${row.place} ${row.devices}`} columns={[
        ...(others.length ? [{ key: "at", title: t("at"), show: (row: (typeof rows)[number]) => row.place }] : []),
        { key: "devices", title: t("devices"), right: true, show: (row) => count(row.devices) },
        { key: "speedup", title: t("speed-up"), right: true, show: (row) => row.speedup.toFixed(2) },
        { key: "efficiency", title: t("efficiency"), right: true, show: (row) => percent(row.efficiency) },
      ]} />
    </Panel>
  );
}

/** Neighbours with different plans. */
function Changes({ swept, varied }: Omit<Part, "known">) {
  if (!swept.changes.length) return null;
  return (
    <Panel width="w6" title={t("Where the plan changes")}>
      <Table<Swept["changes"][number]> label={t("Where the plan changes")} rows={swept.changes} id={(row) => String(swept.changes.indexOf(row))} columns={[
        { key: "between", title: t("between"), show: (row) => `${t(row.axis)} ${row.before} – ${row.after}` },
        { key: "at", title: t("at"), show: (row) => placeOf(row.place, varied.filter((name) => name !== row.axis)) },
        { key: "from", title: t("from"), name: true, show: (row) => row.plans[0] }, { key: "to", title: t("to"), name: true, show: (row) => row.plans[1] },
      ]} />
    </Panel>
  );
}
