// A range of the timeline: what each stream does in it, by cause.
import type { EChartsType } from "echarts/core";
import { percent, seconds } from "./format";
import { t } from "./i18n";
import { setQuery } from "./router";
import type { TimelineView } from "./types";
import { Panel } from "./ui";

export type Range = [from: number, to: number];

interface Spent {
  stream: number;
  kind: string;
  time_s: number;
}

/** The range that the address names, within the step. */
export function rangeOf(query: URLSearchParams, step_s: number): Range | undefined {
  const [from, to] = ["from", "to"].map((name) => Math.min(step_s, Math.max(0, Number(query.get(name) ?? NaN))));
  return from! < to! ? [from!, to!] : undefined;
}

/** Seconds of a range by stream and cause; of a bar the part that is inside. */
export function spentIn(line: TimelineView, kindOf: (task: number) => string, [from, to]: Range): Spent[] {
  const found = new Map<string, Spent>();
  line.bars.start_s.forEach((start, i) => {
    const time_s = Math.min(to, line.bars.end_s[i]!) - Math.max(from, start);
    if (time_s <= 0) return;
    const [stream, kind] = [line.bars.stream[i]!, kindOf(i)];
    const key = `${stream} ${kind}`;
    if (!found.has(key)) found.set(key, { stream, kind, time_s: 0 });
    found.get(key)!.time_s += time_s;
  });
  return [...found.values()].sort((a, b) => a.stream - b.stream || b.time_s - a.time_s);
}

/** Lets a hand select a range on the chart, or move the chart again. */
export function letSelect(chart: EChartsType, on: boolean): void {
  chart.dispatchAction({ type: "takeGlobalCursor", ...(on && { key: "brush", brushOption: { brushType: "lineX", brushMode: "single" } }) });
}

/** Shows a range on the chart, and puts what a hand selects into the address. */
export function followRange(chart: EChartsType, range: Range | undefined): void {
  chart.off("brushEnd");
  chart.dispatchAction({ type: "brush", areas: range ? [{ brushType: "lineX", xAxisIndex: 0, coordRange: range }] : [] });
  chart.on("brushEnd", (params: any) => {
    const [from, to] = params.areas[0]?.coordRange ?? [];
    setQuery(from < to ? { from: from.toPrecision(6), to: to.toPrecision(6) } : { from: undefined, to: undefined });
  });
}

export function RangeTable(props: { line: TimelineView; range: Range; kindOf: (task: number) => string; nameOf: (stream: number) => string }) {
  const { range: [from, to] } = props;
  const rows = spentIn(props.line, props.kindOf, props.range);
  const busy = new Map<number, number>();
  for (const row of rows) busy.set(row.stream, (busy.get(row.stream) ?? 0) + row.time_s);
  const title = `${t("The selected range")}: ${seconds(from)} – ${seconds(to)} (${seconds(to - from)})`;
  return (
    <Panel width="w12" title={title} extra={<button onClick={() => setQuery({ from: undefined, to: undefined })}>{t("Close")}</button>}>
      {!rows.length && <p>{t("Nothing runs in it.")}</p>}
      <table>
        <thead><tr><th scope="col">{t("stream")}</th><th scope="col">{t("cause")}</th><th scope="col" class="right">{t("time")}</th>
          <th scope="col" class="right">{t("of the range")}</th><th scope="col" class="right">{t("the stream is idle")}</th></tr></thead>
        <tbody>{rows.map((row, i) => {
          const isFirst = rows[i - 1]?.stream !== row.stream;
          return (
            <tr key={`${row.stream} ${row.kind}`}><td>{isFirst && props.nameOf(row.stream)}</td><td>{t(row.kind)}</td><td class="right">{seconds(row.time_s)}</td>
              <td class="right">{percent(row.time_s, to - from)}</td><td class="right">{isFirst && seconds(Math.max(0, to - from - busy.get(row.stream)!))}</td></tr>
          );
        })}</tbody>
      </table>
    </Panel>
  );
}
