// Jobs of the service; a search shows cost and bound as they come.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { call, events, get, useGet } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { bytes, percent, seconds, when } from "./format";
import { t } from "./i18n";
import { go, link } from "./router";
import { series } from "./theme";
import type { Job } from "./types";
import { Kpi, Pairs, Panel, Shown, Table, useTicks } from "./ui";

const OVER = ["done", "failed", "cancelled"];

export function isOver(job: Job | undefined): boolean {
  return job !== undefined && OVER.includes(job.state);
}

export function planOf(job: Job | undefined): string | undefined {
  return job?.result?.plan ?? undefined;
}

export function Jobs() {
  const [version, setVersion] = useState(0);
  const found = useGet<Job[]>("/v1/jobs", version);
  useEffect(() => {
    const timer = setInterval(() => setVersion((v) => v + 1), 3000);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Jobs")}</h1><a class="button primary" href="#/new">{t("New search")}</a></div>
      <Panel>
        <Shown of={found}>{(rows) => (
          <Table<Job>
            label={t("Jobs")} rows={rows} id={(job) => job.job} open={(job) => go([job.kind === "sweep" ? "sweep" : "jobs", job.job])}
            columns={[
              { key: "id", title: t("job"), show: (job) => <a href={link(["jobs", job.job])}><code>{job.job.slice(0, 14)}</code></a> },
              { key: "kind", title: t("kind"), sort: (job) => job.kind, show: (job) => t(job.kind) },
              { key: "state", title: t("state"), sort: (job) => job.state, show: (job) => <State job={job} /> },
              { key: "made", title: t("begun"), sort: (job) => job.submitted_at ?? 0, show: (job) => when(job.submitted_at) },
              { key: "result", title: t("result"), show: (job) => {
                const plan = planOf(job);
                return plan ? <a href={link(["plans", plan])}>{t("plan")}</a> : "";
              } },
            ]}
          />
        )}</Shown>
      </Panel>
    </>
  );
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

/** A job, followed until it is over. */
export function useJob(id: string): { job: Job | undefined; progress: Progress; error: Error | undefined } {
  const [job, setJob] = useState<Job>();
  const [error, setError] = useState<Error>();
  const [progress, setProgress] = useState<Progress>({ points: [], lines: [] });
  useEffect(() => {
    const stop = new AbortController();
    const ask = () => get<Job>(`/v1/jobs/${encodeURIComponent(id)}`, stop.signal).then((found) => {
      setJob(found);
      return found;
    });
    const follow = async () => {
      const begun = performance.now();
      while (!stop.signal.aborted && !isOver(await ask())) {
        await events(`/v1/jobs/${encodeURIComponent(id)}/events`, stop.signal, ({ event, data }) => {
          if (event === "job") setJob(data);
          else setProgress((old) => grown(old, data, begun));
        });
        await new Promise((wake) => setTimeout(wake, 500));
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

function grown(old: Progress, data: Record<string, unknown>, begun: number): Progress {
  const time_s = number(data.time_s ?? data.elapsed_s) ?? (performance.now() - begun) / 1000;
  const cost_s = number(data.cost_s);
  const bound_s = number(data.bound_s);
  const line = data.text;
  return {
    points: cost_s === null && bound_s === null ? old.points : [...old.points, { time_s, cost_s, bound_s }],
    lines: typeof line === "string" ? [...old.lines, line].slice(-300) : old.lines,
  };
}

export function JobPage(props: { id: string }) {
  const { job, progress, error } = useJob(props.id);
  const plan = planOf(job);
  const cancel = () => void call(`/v1/jobs/${encodeURIComponent(props.id)}`, { method: "DELETE" });
  useTicks(job !== undefined && !isOver(job));
  const cost = progress.points.findLast((point) => point.cost_s !== null)?.cost_s ?? null;
  const bound = progress.points.findLast((point) => point.bound_s !== null)?.bound_s ?? null;
  return (
    <>
      <div class="head">
        <h1 class="grow">{t(job?.kind ?? "job")} <code>{props.id.slice(0, 14)}</code></h1>
        {job && <State job={job} />}
        {job && !isOver(job) && <button onClick={cancel}>{t("Cancel")}</button>}
        {plan && <a class="button primary" href={link(["plans", plan])}>{t("Open the plan")}</a>}
      </div>
      {error && <div class="note error" role="alert">{error.message}</div>}
      {job?.message && <div class="note error" role="alert">{job.message}</div>}
      {job?.state === "done" && job.kind === "search" && !plan && <Infeasible result={job.result ?? {}} />}
      <div class="kpis">
        <Kpi name={t("best step so far")} value={seconds(cost)} />
        <Kpi name={t("proven bound")} value={seconds(bound)} />
        <Kpi name={t("gap")} value={cost !== null && bound ? percent(Math.max(cost - bound, 0), bound) : "–"} />
        <Kpi name={t("elapsed")} value={elapsed(job)} />
      </div>
      <div class="grid">
        <Panel width="w7" title={t("Cost and bound over time")}><Course points={progress.points} /></Panel>
        <Panel width="w5" title={t("Progress")}>
          <div class="scroll mono side" tabIndex={0} role="log" aria-label={t("Progress")}>
            {progress.lines.map((line, i) => <div key={i}>{line}</div>)}
            {!progress.lines.length && <p class="soft">{job && isOver(job) ? t("The job is over.") : t("Waiting for the first report.")}</p>}
          </div>
        </Panel>
        {job?.request && (
          <Panel width="w12" title={t("Request")}><Pairs rows={asked(job.request)} /></Panel>
        )}
      </div>
    </>
  );
}

/** What was said in a request; what was left open is not shown. */
function asked(request: Record<string, any>): [string, string][] {
  const { options, sweep, ...rest } = request;
  return Object.entries({ ...rest, ...options, ...sweep })
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length))
    .map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : String(value)]);
}

function elapsed(job: Job | undefined): string {
  if (!job?.started_at) return "–";
  return seconds((job.finished_at ?? Date.now() / 1000) - job.started_at);
}

function Infeasible(props: { result: Record<string, any> }) {
  const { result } = props;
  return (
    <div class="note error" role="alert">
      {t("Nothing fits into memory.")}{"\n"}{result.message} ({bytes(result.needed_bytes)} / {bytes(result.available_bytes)})
      {(result.remedies ?? []).map((each: string) => `\n- ${each}`)}
    </div>
  );
}

function Course(props: { points: Point[] }) {
  const { points } = props;
  const option = useCallback(() => ({
    grid: { left: 56, right: 16, top: 30, bottom: 36 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((rows: any[]) => [
      [seconds(rows[0]?.value[0])], ...rows.map((row) => [row.seriesName, seconds(row.value[1])]),
    ] as [string, string][], { trigger: "axis" }),
    xAxis: { type: "value", name: t("seconds"), nameLocation: "middle", nameGap: 22, ...axis() },
    yAxis: { type: "value", scale: true, ...axis(seconds) },
    series: [
      { name: t("cost"), type: "line", step: "end", symbolSize: 4, data: rowsOf(points, "cost_s"), color: series(4) },
      { name: t("bound"), type: "line", step: "end", symbolSize: 4, data: rowsOf(points, "bound_s"), color: series(0) },
    ],
  }), [points]);
  const label = useMemo(() => t("Cost and bound over time"), []);
  return <Chart option={option} height={300} label={label} />;
}

function rowsOf(points: Point[], key: "cost_s" | "bound_s"): [number, number][] {
  return points.flatMap((point) => (point[key] === null ? [] : [[point.time_s, point[key]] as [number, number]]));
}
