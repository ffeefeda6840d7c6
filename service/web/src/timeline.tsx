// The simulated step: streams over time, with zoom.
import { useCallback } from "preact/hooks";
import { useGet, view } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { percent, seconds, signed } from "./format";
import { deviceName, overLinks, t } from "./i18n";
import { causeText } from "./overview";
import { go } from "./router";
import { series } from "./theme";
import type { TimelineView } from "./types";
import { Causes, Fact, Kpi, Panel, Shown } from "./ui";

const ROW = 30;

const COLOURS: Record<string, number> = {
  "compute forward": 0, "compute backward": 1, recompute: 5, "optimizer update": 9, "all-gather": 3, "reduce-scatter": 2,
  "all-reduce": 4, "all-to-all": 7, "point-to-point": 6,
};

export function TimelineTab(props: { id: string }) {
  const found = useGet<TimelineView>(view(props.id, "timeline"));
  return <Shown of={found}>{(line) => <Timeline id={props.id} line={line} />}</Shown>;
}

function Timeline(props: { id: string; line: TimelineView }) {
  const { line } = props;
  const several = new Set(line.streams.map((stream) => stream.device)).size > 1;
  const option = useCallback(() => chartOf(line, several), [line]);
  const click = (params: any) => {
    const name = line.tasks.words[line.tasks.label[params.value[3]]!]!;
    go(["plans", props.id, "operators"], { find: name.split(" and ")[0] });
  };
  return (
    <>
      <div class="kpis">
        <Kpi value={<Fact name="step_s" value={line.estimate_s} format={seconds} />} name={`${t("step")} (${t("simulated")} ${signed(line.step_s / line.estimate_s - 1, percent)})`} />
        <Kpi value={seconds(line.exposed_s)} name={`${t("communication that is not hidden")} (${percent(line.exposed_s, line.step_s)})`} />
        <Kpi value={seconds(line.waiting_s)} name={`${t("waiting (bubbles)")} (${percent(line.waiting_s, line.step_s)})`} />
      </div>
      <div class="grid">
        <Panel width="w12" title={t("Streams of a device")} extra={<span class="soft">{t("wheel zooms, drag moves, click finds the operator")}</span>}>
          <Chart option={option} click={click} height={130 + ROW * line.streams.length} label={t("Streams of a device")} />
          {line.tasks.left_out > 0 && <p class="warn">{line.tasks.left_out} {t("left out")}</p>}
        </Panel>
        <Panel width="w6" title={t("Time of an average device")}>
          <Causes
            head={t("cause")} format={seconds} total={line.step_s}
            rows={[
              ...Object.entries(line.computing).filter(([, s]) => s > 0).map(([name, value]) => ({ name: t(name), value })),
              { name: t("communication that is not hidden"), value: line.exposed_s }, { name: t("waiting (bubbles)"), value: line.waiting_s },
            ]}
          />
        </Panel>
        {line.bubble && (
          <Panel width="w6" title={t("Why stages wait")}>
            <table><tbody>{([
              ["the schedule itself", line.bubble.ideal_s], ["uneven stages", line.bubble.imbalance_s],
              ["recompute", line.bubble.recomputation_s], ["communication", line.bubble.communication_s], ["whole", line.bubble.total_s],
            ] as [string, number][]).map(([name, value]) => (
              <tr key={name}><td>{t(name)}</td><td class="right">{signed(value, seconds)}</td><td class="right">{percent(value, line.step_s)}</td></tr>
            ))}</tbody></table>
          </Panel>
        )}
        <Panel width="w6" title={t("Communication")}>
          <table>
            <thead><tr><th scope="col">{t("kind")}</th><th scope="col">{t("for")}</th><th scope="col" class="right">{t("total")}</th>
              <th scope="col" class="right">{t("exposed")}</th><th scope="col" class="right">{t("hidden")}</th></tr></thead>
            <tbody>{line.communication.map((row, i) => (
              <tr key={i}><td>{causeText(row.tier ? `${row.kind} in ${row.tier}` : row.kind)}</td><td>{t(row.cause)}</td><td class="right">{seconds(row.total_s)}</td>
                <td class="right">{seconds(row.exposed_s)}</td><td class="right">{seconds(row.hidden_s)}</td></tr>
            ))}</tbody>
          </table>
        </Panel>
      </div>
    </>
  );
}

function kindOf(line: TimelineView, task: number): string {
  const { words, kind, cause } = line.tasks;
  const own = words[kind[task]!]!;
  return own === "compute" ? words[cause[task]!]! : own.replaceAll("_", "-");
}

function chartOf(line: TimelineView, several: boolean): object {
  const { tasks } = line;
  const row = new Map(line.streams.map((stream, i) => [stream.stream, i]));
  const bars = new Map<string, number[][]>();
  tasks.start_s.forEach((start, i) => {
    const kind = kindOf(line, i);
    if (!bars.has(kind)) bars.set(kind, []);
    bars.get(kind)!.push([start, tasks.end_s[i]!, row.get(tasks.stream[i]!)!, i]);
  });
  const told = (params: any): [string, string][] => {
    const [start, end, , i] = params.value as [number, number, number, number];
    const tier = tasks.words[tasks.tier[i]!]!;
    return [
      [tasks.words[tasks.label[i]!]!, ""], [tier ? overLinks(kindOf(line, i), tier) : t(kindOf(line, i)), seconds(end - start)],
      [t("for"), t(tasks.words[tasks.cause[i]!]!)], [t("from"), seconds(start)],
    ];
  };
  const streamName = (name: string) => t(name === "compute" ? "computation" : name);
  const names = line.streams.map((stream) => (several ? `${deviceName(stream.device)} · ${streamName(stream.name)}` : streamName(stream.name)));
  const shownNames = names.map((name) => (name.length > 22 ? `${name.slice(0, 21)}…` : name));
  return {
    grid: { left: 150, right: 14, top: 34, bottom: 62 },
    legend: legend({ top: 0, data: [...bars.keys()].map((name) => ({ name: t(name) })) }),
    tooltip: tooltip(told),
    dataZoom: [
      { type: "inside", filterMode: "weakFilter", minSpan: 0.01 },
      { type: "slider", filterMode: "weakFilter", height: 18, bottom: 8, labelFormatter: (value: number) => seconds(value) },
    ],
    xAxis: { type: "value", min: 0, max: line.step_s, ...axis(seconds) },
    yAxis: { type: "category", inverse: true, data: shownNames, ...axis() },
    series: [...bars].map(([kind, data]) => ({
      type: "custom", name: t(kind), itemStyle: { color: series(COLOURS[kind] ?? 8) }, encode: { x: [0, 1], y: 2 }, data,
      progressive: 0, renderItem: bar,
    })),
  };
}

/** ECharts asks for the shape of each bar: from start to end, in the row of its stream. */
function bar(params: any, api: any): object | undefined {
  const [x, y] = api.coord([api.value(0), api.value(2)]);
  const [end] = api.coord([api.value(1), api.value(2)]);
  const height = api.size([0, 1])[1] * 0.72;
  const area = params.coordSys;
  const left = Math.max(x, area.x);
  const width = Math.min(end, area.x + area.width) - left;
  if (width <= 0) return undefined;
  return { type: "rect", shape: { x: left, y: y - height / 2, width: Math.max(width, 0.6), height }, style: { fill: api.visual("color") } };
}
