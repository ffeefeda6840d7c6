// Pictures of a sweep: a measure over an axis, and two measures against each other.
import { axis, legend, tooltip } from "./chart";
import { count } from "./format";
import { t } from "./i18n";
import type { Measure, Point } from "./sweep_points";
import { isPlanned, placeOf } from "./sweep_points";
import { colour, series } from "./theme";

/** One line for each machine: the best point at each value of the axis. */
export function overAxis(points: Point[], by: string, measure: Measure): object {
  const lines = new Map<string, Map<number, number>>();
  for (const point of points.filter(isPlanned)) {
    const x = point[by];
    const y = measure.of(point);
    if (typeof x !== "number" || y === null) continue;
    const name = String(point.cluster ?? "");
    if (!lines.has(name)) lines.set(name, new Map());
    const known = lines.get(name)!.get(x);
    if (known === undefined || (measure.more ? y > known : y < known)) lines.get(name)!.set(x, y);
  }
  return {
    grid: { left: 74, right: 18, top: 30, bottom: 40 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((rows: any[]) => [
      [`${t(by)} ${count(rows[0].value[0])}`, ""], ...rows.map((row) => [row.seriesName, measure.format(row.value[1])]),
    ] as [string, string][], { trigger: "axis" }),
    xAxis: { type: "log", logBase: 2, name: t(by), nameLocation: "middle", nameGap: 24, ...axis(count), min: "dataMin", max: "dataMax" },
    yAxis: { type: "value", ...axis(measure.format) },
    series: [...lines].map(([name, line], i) => ({
      name, type: "line", data: [...line].sort((a, b) => a[0] - b[0]), color: series(i), symbolSize: 6,
    })),
  };
}

/** A dot for each plan, a colour for each machine; those that no other beats are filled. */
export function against(points: Point[], front: Set<number>, axes: string[], across: Measure, up: Measure): object {
  const dots = points.flatMap((point, at) => {
    const [x, y] = [across.of(point), up.of(point)];
    return isPlanned(point) && x !== null && y !== null ? [{ at, point, value: [x, y] }] : [];
  });
  const groups = [...new Set(dots.map(({ point }) => String(point.cluster ?? "")))];
  const scale = (measure: Measure) => ({ type: "value", scale: true, ...axis(measure.format) });
  return {
    grid: { left: 74, right: 18, top: 30, bottom: 40 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((params: any) => {
      const { at, value } = params.data;
      return [[placeOf(points[at]!, axes), ""], [across.title, across.format(value[0])], [up.title, up.format(value[1])], [t("plan"), String(points[at]!.plan ?? "")]];
    }),
    xAxis: { name: across.title, nameLocation: "middle", nameGap: 24, ...scale(across) },
    yAxis: { name: up.title, ...scale(up) },
    series: groups.map((name, i) => ({
      name, type: "scatter", color: series(i),
      data: dots.filter(({ point }) => String(point.cluster ?? "") === name).map(({ at, value }) => ({
        at, value, symbolSize: front.has(at) ? 12 : 8,
        itemStyle: front.has(at) ? { borderColor: colour("text"), borderWidth: 1.5 } : { opacity: 0.45 },
      })),
    })),
  };
}
