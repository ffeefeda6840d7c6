// Memory of a device over the step, by who holds it.
import { useCallback } from "preact/hooks";
import { useGet, view } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { bytes, seconds } from "./format";
import { deviceName, t } from "./i18n";
import { limitFact, PartPanel, type Sheet } from "./parts";
import { link, setQuery, useRoute } from "./router";
import { colour, series } from "./theme";
import type { Levels, MemoryView } from "./types";
import { Panel, Segments, Shown } from "./ui";

const GIB = 2 ** 30;

export function MemoryTab(props: { id: string }) {
  const found = useGet<MemoryView>(view(props.id, "memory"));
  return <Shown of={found}>{(memory) => <Memory id={props.id} memory={memory} />}</Shown>;
}

function Memory(props: { id: string; memory: MemoryView }) {
  const { memory } = props;
  const { query } = useRoute();
  const fullest = memory.parts.find((part) => part.peak_bytes === memory.peak_bytes) ?? memory.parts[0];
  const shown = memory.parts.find((part) => String(part.part) === query.get("part")) ?? fullest;
  const levels: Levels = shown ?? memory;
  const option = useCallback(() => chartOf(levels, memory.limit_bytes), [levels]);
  const choice = memory.parts.map((part): [string, string] => [String(part.part), `${t(part.numbers.length > 1 ? "Stages" : "Stage")} ${part.numbers.join(", ")}`]);
  return (
    <div class="grid">
      {memory.curves.length > 0 && (
        <Panel width="w12" title={t("Memory over the simulated step")}>
          <Curves memory={memory} />
        </Panel>
      )}
      {levels.points.length > 0 && (
        <Panel width="w12" title={t("Memory over the step, by cause")} extra={<span class="soft">{t("forward in the order of operators, then backward")}</span>}>
          {shown && <p><Segments label={t("Stages")} value={String(shown.part)} options={choice} change={(part) => setQuery({ part })} />{" "}
            <span class="soft">{t("with all micro-batches in flight")}</span></p>}
          <Chart option={option} height={380} label={t("Memory over the step, by cause")} />
        </Panel>
      )}
      <PartPanel width="w12" of={memory.report.stages} />
      <PartPanel width="w5" title={t("At the peak")} of={memory.report.causes} fact={limitFact(memory.report.causes as Sheet, memory.limit_bytes)} />
      <PartPanel width="w7" of={levels.holders} open={(row) => link(["plans", props.id, "graph"], { op: levels.holders.rows[row]![0], level: "operators" })} />
    </div>
  );
}

/** What each part of the machine holds while micro-batches come and go. */
function Curves(props: { memory: MemoryView }) {
  const { curves, limit_bytes } = props.memory;
  const option = useCallback(() => ({
    grid: { left: 60, right: 16, top: 34, bottom: 62 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((rows: any[]) => [
      [seconds(rows[0]?.value[0]), ""], ...rows.map((row) => [row.seriesName, bytes(row.value[1] * GIB)]),
    ] as [string, string][], { trigger: "axis" }),
    dataZoom: [{ type: "inside" }, { type: "slider", height: 18, bottom: 8, labelFormatter: (value: number) => seconds(value) }],
    xAxis: { type: "value", min: 0, max: "dataMax", ...axis(seconds) },
    yAxis: { type: "value", name: "GiB", ...axis((value) => String(Math.round(value * 100) / 100)) },
    series: curves.map((curve, i) => ({
      name: deviceName(curve.name), type: "line", step: "end", symbol: "none", color: series(i),
      data: curve.time_s.map((time_s, at) => [time_s, curve.bytes[at]! / GIB]),
      ...(i === 0 && limit_bytes !== null && limitLine(limit_bytes)),
    })),
  }), [props.memory]);
  return <Chart option={option} height={300} label={t("Memory over the simulated step")} />;
}

function limitLine(limit_bytes: number): object {
  return {
    markLine: {
      symbol: "none", silent: true, lineStyle: { color: colour("bad"), type: "solid" }, data: [{ yAxis: limit_bytes / GIB }],
      label: { formatter: t("limit"), color: colour("bad"), position: "insideEndTop" },
    },
  };
}

function chartOf(memory: Levels, limit: number | null): object {
  const causes = Object.entries(memory.causes);
  const told = (rows: any[]): [string, string][] => {
    const at = rows[0]?.dataIndex ?? 0;
    const back = memory.points[at]! >= memory.backward_from;
    const total = causes.reduce((sum, [, level]) => sum + level[at]!, 0);
    return [
      [`${memory.operators[at]} (${t(back ? "backward" : "forward")})`, ""], [t("in use"), bytes(total)],
      ...causes.filter(([, level]) => level[at]! > 0).map(([name, level]) => [t(name), bytes(level[at])] as [string, string]),
    ];
  };
  return {
    grid: { left: 60, right: 16, top: 34, bottom: 62 },
    legend: legend({ top: 0 }),
    tooltip: tooltip(told as (params: any) => [string, string][], { trigger: "axis" }),
    dataZoom: [{ type: "inside" }, { type: "slider", height: 18, bottom: 8, showDetail: false }],
    xAxis: { type: "category", data: memory.points, boundaryGap: false, name: t("operators in order"), nameLocation: "middle", nameGap: 20, ...axis(), axisLabel: { show: false } },
    yAxis: { type: "value", name: "GiB", ...axis((value) => String(Math.round(value * 100) / 100)) },
    series: causes.map(([name, level], i) => ({
      name: t(name), type: "line", stack: "memory", step: "end", symbol: "none", color: series(i), lineStyle: { width: 0 }, areaStyle: { opacity: 0.8 },
      data: level.map((value) => value / GIB),
      ...(i === 0 && limit !== null && limitLine(limit)),
    })),
  };
}
