// Jobs of the service; a search shows cost and bound as they come.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { call, events, get, page, type Loaded } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { bytes, distinctSeconds, percent, seconds, when } from "./format";
import { said, t } from "./i18n";
import { Filter, matching } from "./lists";
import { link, useRoute } from "./router";
import { series } from "./theme";
import type { Job } from "./types";
import { Choice, Kpi, Pairs, Panel, Shown, Table, useTicks, type Column } from "./ui";

const OVER = ["done", "failed", "cancelled"];

export function isOver(job: Job | undefined): boolean {
  return job !== undefined && OVER.includes(job.state);
}

export function planOf(job: Job | undefined): string | undefined {
  return job?.result?.plan ?? undefined;
}

const KINDS = ["search", "layouts", "recipe", "sweep", "simulation", "explanation", "verification", "export", "model", "cluster", "plan"];
/** Kinds whose answers have a view of their own. */
const VIEWS: Record<string, string> = { sweep: "sweep", layouts: "layouts", recipe: "layouts" };
const PAGE = 100;
/** Jobs of one answer of the service. */
const LONGEST = 1000;

/** So many jobs, the newest first, page by page as the service hands them out. */
async function paged(kind: string, most: number, signal: AbortSignal): Promise<{ rows: Job[]; count: number }> {
  const rows: Job[] = [];
  for (;;) {
    const limit = Math.min(most - rows.length, LONGEST);
    const before = rows.at(-1)?.job;
    const found = await page<Job>(`/v1/jobs?${new URLSearchParams({ limit: String(limit), ...(kind && { kind }), ...(before && { before }) })}`, signal);
    rows.push(...found.rows);
    if (rows.length >= most || found.rows.length < limit) return { rows, count: found.count };
  }
}

/** The jobs of all pages so far, asked for anew every few seconds. */
function useJobs(kind: string, most: number): Loaded<{ rows: Job[]; count: number }> & { again: () => void } {
  const [state, setState] = useState<Loaded<{ rows: Job[]; count: number }>>({ loading: true });
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    paged(kind, most, stop.signal).then(
      (data) => setState({ data, loading: false }),
      (error: Error) => { if (!stop.signal.aborted) setState({ error, loading: false }); },
    );
    const timer = setTimeout(() => setVersion((old) => old + 1), 3000);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [kind, most, version]);
  return { ...state, again: () => setVersion((old) => old + 1) };
}

export function Jobs() {
  const [kind, setKind] = useState("");
  const [most, setMost] = useState(PAGE);
  const [words, setWords] = useState("");
  const found = useJobs(kind, most);
  useTicks(true);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Jobs")}</h1><a class="button primary" href="#/new">{t("New search")}</a></div>
      <Panel>
        <Shown of={found}>{({ rows, count: all }) => {
          const shown = matching(rows, words, (job) => [modelOf(job), t(job.kind), t(job.state), job.job].join(" "));
          return (
            <>
              <Filter value={words} change={setWords} shown={shown.length} all={all}>
                <Choice value={kind} label={t("kind")} options={[["", t("all kinds")], ...KINDS.map((each): [string, string] => [each, t(each)])]} change={setKind} />
              </Filter>
              <Table<Job> label={t("Jobs")} rows={shown} id={(job) => job.job} columns={jobColumns(found.again)} most={Infinity} />
              {rows.length < all && <p><button onClick={() => setMost(most + PAGE)}>{t("Show more")} ({all - rows.length})</button></p>}
            </>
          );
        }}</Shown>
      </Panel>
    </>
  );
}

function jobColumns(again: () => void): Column<Job>[] {
  const option = (job: Job, name: string) => (job.request?.options?.[name] ?? job.request?.sweep?.[name] ?? "") as string | number;
  const gap = (job: Job) => number(job.result?.gap);
  const end = (job: Job) => void call(`/v1/jobs/${encodeURIComponent(job.job)}?forget=true`, { method: "DELETE" }).then(again);
  return [
    { key: "model", title: t("model"), sort: modelOf, show: (job) => <a href={link([VIEWS[job.kind] ?? "jobs", job.job])}>{modelOf(job) || <code>{job.job.slice(0, 12)}</code>}</a> },
    { key: "kind", title: t("kind"), sort: (job) => job.kind, show: (job) => t(job.kind) },
    { key: "state", title: t("state"), sort: (job) => job.state, show: (job) => <State job={job} /> },
    { key: "devices", title: t("devices"), right: true, sort: (job) => Number(option(job, "devices")) || 0, show: (job) => option(job, "devices") },
    { key: "batch", title: t("batch"), right: true, sort: (job) => Number(option(job, "batch") || option(job, "global_batch")) || 0, show: (job) => option(job, "batch") || option(job, "global_batch") },
    { key: "step", title: t("step"), right: true, sort: (job) => number(job.result?.step_time_s) ?? 0, show: (job) => (number(job.result?.step_time_s) === null ? "" : seconds(number(job.result?.step_time_s))) },
    { key: "gap", title: t("gap"), right: true, sort: (job) => gap(job) ?? Infinity, show: (job) => (gap(job) === null ? "" : percent(gap(job)!)) },
    { key: "took", title: t("duration"), right: true, sort: (job) => lasted(job) ?? 0, show: (job) => (lasted(job) === null ? "" : seconds(lasted(job))) },
    { key: "made", title: t("begun"), sort: (job) => job.submitted_at ?? 0, show: (job) => when(job.submitted_at) },
    { key: "result", title: t("result"), show: (job) => (planOf(job) ? <a href={link(["plans", planOf(job)!])}>{t("plan")}</a> : "") },
    { key: "manage", title: "", show: (job) => (
      <button class="plain" onClick={() => end(job)} aria-label={`${t(isOver(job) ? "Delete" : "Cancel")} ${job.job}`} title={t(isOver(job) ? "Delete" : "Cancel")}>✕</button>
    ) },
  ];
}

/** What a job is about: the name of its model, or of another item that it was given. */
function modelOf(job: Job): string {
  const about = job.request?.model ?? job.request?.plan ?? job.request?.cluster ?? "";
  return job.result?.model_name ?? job.names?.[about] ?? String(about);
}

function lasted(job: Job): number | null {
  if (!job.started_at) return null;
  return (job.finished_at ?? Date.now() / 1000) - job.started_at;
}

function State(props: { job: Job }) {
  return <span class={`state ${props.job.state}`}>{t(props.job.state)}</span>;
}

interface Point {
  time_s: number;
  cost_s: number | null;
  bound_s: number | null;
}

interface Progress {
  points: Point[];
  lines: string[];
}

const NOTHING: Progress = { points: [], lines: [] };

/** A job, followed until it is over. */
export function useJob(id: string): { job: Job | undefined; progress: Progress; error: Error | undefined } {
  const [job, setJob] = useState<Job>();
  const [error, setError] = useState<Error>();
  const [progress, setProgress] = useState<Progress>(NOTHING);
  useEffect(() => {
    const stop = new AbortController();
    let begun = false;
    const ask = () => get<Job>(`/v1/jobs/${encodeURIComponent(id)}`, stop.signal).then((found) => {
      begun = found.state !== "queued";
      setJob((old) => (isOver(old) ? old : found));
      return found;
    });
    const listen = () => {
      setProgress(NOTHING);
      return events(`/v1/jobs/${encodeURIComponent(id)}/events`, stop.signal, ({ event, data }) => {
        if (event === "job") setJob(data);
        else {
          if (!begun) void ask();
          setProgress((old) => grown(old, data));
        }
      });
    };
    const follow = async () => {
      let found = await ask();
      await listen();
      while (!isOver(found) && !stop.signal.aborted) {
        found = await ask();
        if (isOver(found)) return;
        await new Promise((wake) => setTimeout(wake, 500));
        await listen();
      }
    };
    follow().catch((found: Error) => {
      if (!stop.signal.aborted) setError(found);
    });
    return () => stop.abort();
  }, [id]);
  return { job, progress, error };
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function least(one: number | null | undefined, two: number | null): number | null {
  return typeof one === "number" && two !== null ? Math.min(one, two) : one ?? two;
}

/** An event says when it was, in seconds since its attempt began: an earlier time is another attempt. */
function grown(old: Progress, data: Record<string, unknown>): Progress {
  const time_s = number(data.elapsed_s) ?? (old.points.at(-1)?.time_s ?? 0);
  const line = data.text;
  const before = time_s < (old.points.at(-1)?.time_s ?? 0) ? [] : old.points;
  // Each bound is of the space that was searched then, so that of all spaces is the least.
  const cost_s = least(before.at(-1)?.cost_s, number(data.cost_s));
  const bound_s = least(before.at(-1)?.bound_s, number(data.bound_s));
  return {
    points: cost_s === null && bound_s === null ? before : [...before, { time_s, cost_s, bound_s }],
    lines: typeof line === "string" ? [...old.lines, line].slice(-300) : old.lines,
  };
}

export function JobPage(props: { id: string }) {
  const { job, progress, error } = useJob(props.id);
  const plan = planOf(job);
  const opens = useRoute().query.get("then") === "plan";
  useEffect(() => {
    if (opens && plan) location.replace(link(["plans", plan]));
  }, [opens, plan]);
  const cancel = () => void call(`/v1/jobs/${encodeURIComponent(props.id)}`, { method: "DELETE" });
  useTicks(job !== undefined && !isOver(job));
  const { cost, bound } = figures(progress, job);
  return (
    <>
      <div class="head">
        <h1 class="grow">{t(job?.kind ?? "job")} {job && modelOf(job)} <code>{props.id.slice(0, 14)}</code></h1>
        {job && <State job={job} />}
        {job && !isOver(job) && <button onClick={cancel}>{t("Cancel")}</button>}
        {plan && <a class="button primary" href={link(["plans", plan])}>{t("Open the plan")}</a>}
      </div>
      {error && <div class="note error" role="alert">{said(error.message)}</div>}
      {job?.message && <div class="note error" role="alert">{said(job.message)}</div>}
      {job?.state === "done" && job.kind === "search" && !plan && <Infeasible result={job.result ?? {}} />}
      <div class="kpis">
        <Kpi name={t(plan ? "step" : "best step so far")} value={seconds(cost)} />
        <Kpi name={t("proven bound")} value={seconds(bound)} />
        <Kpi name={t("gap")} value={cost !== null && bound ? percent(Math.max(cost - bound, 0), bound) : "–"} />
        <Kpi name={t("elapsed")} value={elapsed(job)} />
      </div>
      <div class="grid">
        <Panel width="w7" title={t("Cost and bound over time")}><Course points={progress.points} job={job} /></Panel>
        <Panel width="w5" title={t("Progress")}>
          <div class="scroll mono side" tabIndex={0} role="log" aria-label={t("Progress")}>
            {progress.lines.map((line, i) => <div key={i}>{said(line)}</div>)}
            {!progress.lines.length && <p class="soft">{job && isOver(job) ? t("The job is over.") : t("Waiting for the first report.")}</p>}
          </div>
        </Panel>
        {job?.request && (
          <Panel width="w12" title={t("Request")}><Pairs rows={asked(job)} /></Panel>
        )}
      </div>
    </>
  );
}

/** The best step that fits and the bound: of the plan where there is one, else so far. */
function figures(progress: Progress, job: Job | undefined): { cost: number | null; bound: number | null } {
  if (planOf(job)) return { cost: number(job?.result?.step_time_s), bound: number(job?.result?.bound_s) };
  const last = progress.points.at(-1);
  return { cost: last?.cost_s ?? null, bound: last?.bound_s ?? null };
}

/** What was said in a request; what was left open is not shown. */
function asked(job: Job): [string, string][] {
  const { options, sweep, ...rest } = job.request ?? {};
  return Object.entries({ ...rest, ...options, ...sweep })
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length))
    .map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : (job.names?.[String(value)] ?? String(value))]);
}

function elapsed(job: Job | undefined): string {
  return seconds(job && lasted(job));
}

function Infeasible(props: { result: Record<string, any> }) {
  const { result } = props;
  return (
    <div class="note error" role="alert">
      {t("Nothing fits into memory.")}{"\n"}{said(result.message ?? "")} ({bytes(result.needed_bytes)} / {bytes(result.available_bytes)})
      {(result.remedies ?? []).map((each: string) => `\n- ${said(each)}`)}
    </div>
  );
}

/** Seconds since the job began; the tip has the time of day. */
function Course(props: { points: Point[]; job: Job | undefined }) {
  const { points, job } = props;
  const began_s = job?.started_at ?? null;
  const end_s = began_s !== null && job?.finished_at ? job.finished_at - began_s : null;
  const format = distinctSeconds(points.flatMap((point) => [point.cost_s, point.bound_s]).filter((each) => each !== null));
  const clock = (after_s: number) => (began_s === null ? "" : new Date((began_s + after_s) * 1000).toLocaleTimeString());
  const option = useCallback(() => ({
    grid: { left: 56, right: 16, top: 30, bottom: 36 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((rows: any[]) => [
      [seconds(rows[0]?.value[0]), clock(rows[0]?.value[0])], ...rows.map((row) => [row.seriesName, format(row.value[1])]),
    ] as [string, string][], { trigger: "axis" }),
    xAxis: { type: "value", min: 0, max: end_s ?? undefined, name: began_s === null ? t("seconds") : `${t("seconds since")} ${clock(0)}`, nameLocation: "middle", nameGap: 22, ...axis() },
    yAxis: { type: "value", scale: true, ...axis(format) },
    series: [
      { name: t("cost"), type: "line", step: "end", symbolSize: 4, data: rowsOf(points, "cost_s", end_s), color: series(4) },
      { name: t("bound"), type: "line", step: "end", symbolSize: 4, data: rowsOf(points, "bound_s", end_s), color: series(0) },
    ],
  }), [points, began_s, end_s]);
  const label = useMemo(() => t("Cost and bound over time"), []);
  return <Chart option={option} height={300} label={label} />;
}

/** What was known when; the last of it holds until the end. */
function rowsOf(points: Point[], key: "cost_s" | "bound_s", end_s: number | null): [number, number][] {
  const rows = points.flatMap((point) => (point[key] === null ? [] : [[point.time_s, point[key]] as [number, number]]));
  const last = rows.at(-1);
  return last && end_s !== null && end_s > last[0] ? [...rows, [end_s, last[1]]] : rows;
}
