// A sweep: full searches over several sizes, and its curves.
import { useCallback, useState } from "preact/hooks";
import { post } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { bytes, count, seconds } from "./format";
import { said, t } from "./i18n";
import { isOver, useJob } from "./jobs";
import { useOptions, type Declared } from "./options";
import { go, useRoute } from "./router";
import { MachineFields, ModelPicker, optionsOf, startOf, type Form } from "./search";
import { Scatter, type Dot } from "./scatter";
import { series } from "./theme";
import type { Job } from "./types";
import { Failure, Field, Panel, Segments, Table } from "./ui";

export function Sweep(props: { job: string | undefined }) {
  return props.job ? <Curves id={props.job} /> : <Ask />;
}

/** The body of a sweep: what all points have in common, and what varies. */
export function requestOf(form: Form, declared: Declared, devices: string, vary: string): Record<string, unknown> {
  const { cluster = declared.cluster!.usual, devices: _, ...options } = optionsOf(form, declared);
  const axes = vary.trim().split(/\s+/).filter(Boolean);
  if (axes.some((axis) => axis.startsWith("batch="))) delete options.batch;
  return { model: form.model, options, sweep: { devices: devices.replaceAll(" ", ""), cluster, vary: axes } };
}

function Ask() {
  const { query } = useRoute();
  const [form, setForm] = useState<Form>(() => startOf(query));
  const [devices, setDevices] = useState(query.get("sizes") ?? "8, 16, 32, 64");
  const [vary, setVary] = useState("");
  const [error, setError] = useState<Error>();
  const change = (part: Partial<Form>) => setForm((old) => ({ ...old, ...part }));
  const { data: declared, error: unread } = useOptions();
  if (!declared) return unread ? <Failure error={unread} /> : <p role="status">{t("Loading")} …</p>;
  const begin = async (event: Event) => {
    event.preventDefault();
    setError(undefined);
    try {
      const job = await post<Job>("/v1/sweeps", requestOf(form, declared, devices, vary));
      go(["sweep", job.job]);
    } catch (found) {
      setError(found as Error);
    }
  };
  return (
    <form onSubmit={begin}>
      <div class="head"><h1 class="grow">{t("Sweep")}</h1></div>
      {error && <Failure error={error} />}
      <div class="grid">
        <Panel width="w5" title={t("Model")}><ModelPicker form={form} change={change} /></Panel>
        <Panel width="w7" title={t("What varies")}>
          <div class="fields">
            <Field title={t("numbers of devices")} hint={t("a search for each")}>
              <input type="text" required value={devices} onInput={(e) => setDevices(e.currentTarget.value)} />
            </Field>
            <Field title={t("vary")} hint="bandwidth=0.5:2:3 batch=64:256:3">
              <input type="text" value={vary} onInput={(e) => setVary(e.currentTarget.value)} />
            </Field>
            <MachineFields form={form} declared={declared} change={change} />
          </div>
          <p />
          <button class="primary" type="submit" disabled={!form.model}>{t("Begin")}</button>
        </Panel>
      </div>
    </form>
  );
}

type Point = Record<string, number | string | null>;

const AXES = ["devices", "batch", "bandwidth", "latency", "memory", "compute", "sequence"];

function Curves(props: { id: string }) {
  const { job, progress, error } = useJob(props.id);
  const [by, setBy] = useState("devices");
  const points: Point[] = job?.result?.points ?? [];
  const axes = AXES.filter((name) => new Set(points.map((point) => point[name])).size > 1);
  const shown = axes.includes(by) ? by : (axes[0] ?? "devices");
  const step = useCallback(() => curves(points, shown, "step_s", seconds), [job, shown]);
  const speed = useCallback(() => curves(points, shown, "samples_per_s", count), [job, shown]);
  const front = new Set<number>(job?.result?.pareto ?? []);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Sweep")} <code>{props.id.slice(0, 14)}</code></h1><span class={`state ${job?.state ?? ""}`}>{t(job?.state ?? "")}</span></div>
      {error && <Failure error={error} />}
      {job?.message && <div class="note error" role="alert">{said(job.message)}</div>}
      {!isOver(job) && <p class="mono" role="status">{said(progress.lines.at(-1) ?? "") || t("Waiting for the first report.")}</p>}
      {points.length > 0 && (
        <div class="grid">
          {axes.length > 1 && <div class="w12"><Segments label={t("over")} value={shown} options={axes.map((each) => [each, t(each)])} change={setBy} /></div>}
          <Panel width="w6" title={t("step")}><Chart option={step} height={280} label={t("step")} /></Panel>
          <Panel width="w6" title={t("samples per second")}><Chart option={speed} height={280} label={t("samples per second")} /></Panel>
          <Panel width="w12" title={t("Step against memory")}><Scatter dots={dotsOf(points)} /></Panel>
          <Panel width="w12" title={t("Points")}>
            <Table<Point>
              label={t("Points")} rows={points} id={(row) => String(row.key)} isMarked={(row) => front.has(points.indexOf(row))}
              columns={[
                ...["cluster", ...AXES].filter((name) => points.some((point) => point[name] !== null && point[name] !== undefined)).map((name) => ({
                  key: name, title: t(name), right: name !== "cluster", sort: (row: Point) => row[name] ?? 0, show: (row: Point) => cell(row[name]),
                })),
                { key: "step", title: t("step"), right: true, sort: (row) => row.step_s ?? Infinity, show: (row) => seconds(row.step_s as number | null) },
                ...(points.some((point) => typeof point.upper_s === "number") ? [
                  { key: "interval", title: t("90 % of comparable published runs"), right: true, sort: (row: Point) => row.low_s ?? Infinity,
                    show: (row: Point) => (typeof row.low_s === "number" ? `${seconds(row.low_s)} – ${seconds(row.high_s as number)}` : "–") },
                  { key: "upper", title: t("three of four take at most"), right: true, sort: (row: Point) => row.upper_s ?? Infinity, show: (row: Point) => seconds(row.upper_s as number | null) },
                ] : []),
                { key: "speed", title: t("samples per second"), right: true, sort: (row) => row.samples_per_s ?? 0, show: (row) => cell(row.samples_per_s) },
                { key: "peak", title: t("peak memory"), right: true, sort: (row) => row.peak_gib ?? 0,
                  show: (row) => (typeof row.peak_gib === "number" ? bytes(row.peak_gib * 2 ** 30) : "–") },
                { key: "plan", title: t("plan"), name: true, show: (row) => row.plan ?? said(String(row.message ?? "")) },
              ]}
            />
            <p class="soft">{t("Marked points are best in time, devices, memory or price: no other is better in all of them.")}</p>
          </Panel>
        </div>
      )}
    </>
  );
}

function dotsOf(points: Point[]): Dot[] {
  return points.flatMap((point) => (typeof point.step_s === "number" && typeof point.peak_gib === "number"
    ? [{
        name: AXES.filter((name) => point[name] !== null && point[name] !== undefined).map((name) => `${t(name)} ${point[name]}`).join(", "),
        group: String(point.cluster ?? ""), step_s: point.step_s, peak_bytes: point.peak_gib * 2 ** 30,
      }]
    : []));
}

function cell(value: number | string | null | undefined): string {
  return typeof value === "number" ? count(value) : (value ?? "–");
}

/** One line for each machine: the best point at each value of the axis. */
function curves(points: Point[], by: string, what: "step_s" | "samples_per_s", format: (value: number) => string): object {
  const lines = new Map<string, Map<number, number>>();
  for (const point of points) {
    const x = point[by];
    const y = point[what];
    if (typeof x !== "number" || typeof y !== "number") continue;
    const name = String(point.cluster ?? "");
    if (!lines.has(name)) lines.set(name, new Map());
    const known = lines.get(name)!.get(x);
    const isBetter = known === undefined || (what === "step_s" ? y < known : y > known);
    if (isBetter) lines.get(name)!.set(x, y);
  }
  return {
    grid: { left: 62, right: 18, top: 30, bottom: 40 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((rows: any[]) => [
      [`${t(by)} ${count(rows[0].value[0])}`, ""], ...rows.map((row) => [row.seriesName, format(row.value[1])]),
    ] as [string, string][], { trigger: "axis" }),
    xAxis: { type: "log", logBase: 2, name: t(by), nameLocation: "middle", nameGap: 24, ...axis(count), min: "dataMin", max: "dataMax" },
    yAxis: { type: "value", ...axis(format) },
    series: [...lines].map(([name, line], i) => ({
      name, type: "line", data: [...line].sort((a, b) => a[0] - b[0]), color: series(i), symbolSize: 6,
    })),
  };
}
