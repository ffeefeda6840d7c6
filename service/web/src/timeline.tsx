// The simulated step: streams over time, with zoom.
import type { EChartsType } from "echarts/core";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { call, finished, post, useGet, view } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { save } from "./exports";
import { percent, seconds, signed } from "./format";
import { deviceName, overLinks, t } from "./i18n";
import { PartPanel } from "./parts";
import { go, useRoute } from "./router";
import { colour, series } from "./theme";
import { followRange, letSelect, RangeTable, rangeOf } from "./timeline_range";
import type { TimelineView } from "./types";
import { Fact, Failure, Kpi, Panel, Shown, useKeys, useSettled } from "./ui";

const ROW = 30;
/** A bar so wide has its name on it. */
const NAMED_PX = 46;

const COLOURS: Record<string, number> = {
  "compute forward": 0, "compute backward": 1, recompute: 5, "optimizer update": 9, "all-gather": 3, "reduce-scatter": 2,
  "all-reduce": 4, "all-to-all": 7, "point-to-point": 6,
};

export function TimelineTab(props: { id: string; model: string }) {
  const found = useGet<TimelineView>(view(props.id, "timeline"));
  return <Shown of={found}>{(line) => <Timeline id={props.id} model={props.model} line={line} />}</Shown>;
}

/** Saves the simulated step for ui.perfetto.dev. */
function Trace(props: { id: string; model: string }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const take = async () => {
    setBusy(true);
    try {
      const { job } = await post<{ job: string }>("/v1/simulations", { plan: props.id });
      save(await (await call(`/v1/traces/${(await finished(job)).trace}`)).blob(), `${props.model}-trace.json`);
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  return <><button disabled={busy} onClick={() => void take()}>{t("Save the trace (Perfetto)")}</button>{error && <Failure error={error} />}</>;
}

/** Keys of a timeline: in, out, left, right. */
const MOVES: Record<string, [zoom: number, move: number]> = { w: [0.7, 0], s: [1 / 0.7, 0], a: [1, -0.2], d: [1, 0.2] };

function moved(chart: EChartsType, zoom: number, move: number): void {
  const [now] = (chart.getOption() as { dataZoom: { start: number; end: number }[] }).dataZoom;
  const wide = Math.min(100, Math.max(0.01, (now!.end - now!.start) * zoom));
  const middle = (now!.start + now!.end) / 2 + move * wide;
  const start = Math.min(100 - wide, Math.max(0, middle - wide / 2));
  chart.dispatchAction({ type: "dataZoom", start, end: start + wide });
}

function Timeline(props: { id: string; model: string; line: TimelineView }) {
  const { line } = props;
  const [find, setFind] = useState("");
  const wanted = useSettled(find.trim().toLowerCase(), 200);
  const hits = wanted ? line.bars.label.filter((label) => line.bars.words[label]!.toLowerCase().includes(wanted)).length : 0;
  const drawn = useRef<EChartsType | undefined>(undefined);
  const [selects, setSelects] = useState(false);
  const { query } = useRoute();
  const range = rangeOf(query, line.step_time_s);
  useEffect(() => {
    if (drawn.current) followRange(drawn.current, range);
  }, [range?.[0], range?.[1]]);
  const select = (on: boolean) => {
    setSelects(on);
    if (drawn.current) letSelect(drawn.current, on);
  };
  const ready = (chart: EChartsType) => {
    drawn.current = chart;
    followRange(chart, range);
    letSelect(chart, selects);
  };
  useKeys((event) => {
    const move = MOVES[event.key];
    if (event.key === "r") select(!selects);
    if (!move || !drawn.current) return;
    event.stopImmediatePropagation();
    moved(drawn.current, ...move);
  }, true);
  const several = new Set(line.streams.map((stream) => stream.device)).size > 1;
  const option = useCallback(() => chartOf(line, several, wanted), [line, wanted]);
  const click = (params: any) => {
    const name = line.bars.words[line.bars.label[params.value[3]]!]!;
    go(["plans", props.id, "operators"], { find: name.split(" ")[0] });
  };
  return (
    <>
      <div class="kpis">
        <Kpi value={<Fact name="step_s" value={line.estimate_s} format={seconds} />} name={`${t("step")} (${t("simulated")} ${signed(line.step_time_s / line.estimate_s - 1, percent)})`} />
        <Kpi value={seconds(line.exposed_communication_s)} name={`${t("exposed communication")} (${percent(line.exposed_communication_s, line.step_time_s)})`} />
        <Kpi value={seconds(line.waiting_s)} name={`${t("idle (pipeline bubble)")} (${percent(line.waiting_s, line.step_time_s)})`} />
      </div>
      <div class="grid">
        <Panel width="w12" title={t("Streams of a device")} extra={<Trace id={props.id} model={props.model} />}>
          <div class="row">
            <input type="search" placeholder={t("Find in the timeline")} aria-label={t("Find in the timeline")} value={find} onInput={(event) => setFind(event.currentTarget.value)} />
            <span class="soft" role="status">{wanted && (hits ? `${hits} ${t("found")}` : t("Nothing in the timeline has this in its name."))}</span>
            <button aria-pressed={selects} onClick={() => select(!selects)}>{t("Select a range")}</button>
            <span class="soft">{t("wheel or W S zoom, drag or A D move, click finds the operator")}</span>
          </div>
          <Chart option={option} ready={ready} click={click} height={130 + ROW * line.streams.length} label={t("Streams of a device")} />
          {line.bars.left_out > 0 && <p class="warn">{line.bars.left_out} {t("left out")}</p>}
        </Panel>
        {range && <RangeTable line={line} range={range} kindOf={(task) => kindOf(line, task)} nameOf={(stream) => streamNames(line, several)[line.streams.findIndex((each) => each.stream === stream)]!} />}
        {line.report.map((part) => <PartPanel key={part.title} width="w6" of={part} />)}
      </div>
    </>
  );
}

function kindOf(line: TimelineView, task: number): string {
  const { words, kind, cause } = line.bars;
  const own = words[kind[task]!]!;
  return own === "compute" ? words[cause[task]!]! : own.replaceAll("_", "-");
}

function chartOf(line: TimelineView, several: boolean, wanted: string): object {
  const { bars: tasks } = line;
  const row = new Map(line.streams.map((stream, i) => [stream.stream, i]));
  const bars = new Map<string, number[][]>();
  tasks.start_s.forEach((start, i) => {
    const kind = kindOf(line, i);
    if (!bars.has(kind)) bars.set(kind, []);
    const isHit = !wanted || tasks.words[tasks.label[i]!]!.toLowerCase().includes(wanted);
    bars.get(kind)!.push([start, tasks.end_s[i]!, row.get(tasks.stream[i]!)!, i, isHit ? 1 : 0.12]);
  });
  const told = (params: any): [string, string][] => {
    const [start, end, , i] = params.value as [number, number, number, number];
    const tier = tasks.words[tasks.tier[i]!]!;
    return [
      [tasks.words[tasks.label[i]!]!, ""], [tier ? overLinks(kindOf(line, i), tier) : t(kindOf(line, i)), seconds(end - start)],
      [t("for"), t(tasks.words[tasks.cause[i]!]!)], [t("from"), seconds(start)],
    ];
  };
  const shownNames = streamNames(line, several).map((name) => (name.length > 22 ? `${name.slice(0, 21)}…` : name));
  return {
    grid: { left: 150, right: 14, top: 34, bottom: 62 },
    legend: legend({ top: 0, data: [...bars.keys()].map((name) => ({ name: t(name) })) }),
    tooltip: tooltip(told),
    brush: { xAxisIndex: 0, throttleType: "debounce", transformable: false, outOfBrush: { colorAlpha: 1 }, brushStyle: { color: "#88888833", borderColor: colour("accent"), borderWidth: 1 } },
    toolbox: { show: false },
    dataZoom: [
      { type: "inside", filterMode: "weakFilter", minSpan: 0.01 },
      { type: "slider", filterMode: "weakFilter", height: 18, bottom: 8, labelFormatter: (value: number) => seconds(value) },
    ],
    xAxis: { type: "value", min: 0, max: line.step_time_s, ...axis(seconds) },
    yAxis: { type: "category", inverse: true, data: shownNames, ...axis() },
    series: [...bars].map(([kind, data]) => ({
      type: "custom", name: t(kind), itemStyle: { color: series(COLOURS[kind] ?? 8) }, encode: { x: [0, 1], y: 2 }, data,
      progressive: 0, renderItem: (params: any, api: any) => bar(line, params, api),
    })),
  };
}

function streamNames(line: TimelineView, several: boolean): string[] {
  const own = (name: string) => t(name === "compute" ? "computation" : name);
  return line.streams.map((stream) => (several ? `${deviceName(stream.device)} · ${own(stream.name)}` : own(stream.name)));
}

/** ECharts asks for the shape of each bar: from start to end, in the row of its stream. */
function bar(line: TimelineView, params: any, api: any): object | undefined {
  const [x, y] = api.coord([api.value(0), api.value(2)]);
  const [end] = api.coord([api.value(1), api.value(2)]);
  const height = api.size([0, 1])[1] * 0.72;
  const area = params.coordSys;
  const left = Math.max(x, area.x);
  const width = Math.min(end, area.x + area.width) - left;
  if (width <= 0) return undefined;
  const rect = {
    type: "rect", shape: { x: left, y: y - height / 2, width: Math.max(width, 0.6), height },
    style: { fill: api.visual("color"), opacity: api.value(4) },
  };
  if (width < NAMED_PX) return rect;
  const name = line.bars.words[line.bars.label[api.value(3)]!]!;
  const text = { text: name.split(" ")[0]!.split(".").slice(-2).join("."), x: left + 3, y, fill: "#fff", fontSize: 10, verticalAlign: "middle", width: width - 6, overflow: "truncate" };
  return { type: "group", children: [rect, { type: "text", style: text, silent: true }] };
}
