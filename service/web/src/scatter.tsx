// Steps against memory: plans or points of a sweep, one dot each.
import { useCallback } from "preact/hooks";
import { axis, Chart, legend, tooltip } from "./chart";
import { bytes, seconds } from "./format";
import { t } from "./i18n";
import { series } from "./theme";

const GIB = 2 ** 30;

export interface Dot {
  name: string;
  /** Dots of a group share a colour. */
  group: string;
  step_s: number;
  peak_bytes: number;
  open?: () => void;
}

export function Scatter(props: { dots: Dot[]; height?: number }) {
  const { dots } = props;
  const option = useCallback(() => optionOf(dots), [dots]);
  const title = t("Step against memory");
  if (dots.length < 2) return null;
  return <Chart option={option} height={props.height ?? 280} label={title} click={(params) => dots[params.value?.[2]]?.open?.()} />;
}

function optionOf(dots: Dot[]): object {
  const groups = [...new Set(dots.map((dot) => dot.group))];
  return {
    grid: { left: 62, right: 18, top: 30, bottom: 40 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((params: any) => {
      const dot = dots[params.value[2]]!;
      return [[dot.name, ""], [t("step"), seconds(dot.step_s)], [t("peak memory"), bytes(dot.peak_bytes)]];
    }),
    xAxis: { type: "value", scale: true, name: `${t("peak memory")} (GiB)`, nameLocation: "middle", nameGap: 24, ...axis() },
    yAxis: { type: "log", name: t("step"), ...axis(seconds) },
    series: groups.map((name, i) => ({
      name, type: "scatter", color: series(i), symbolSize: 9,
      data: dots.flatMap((dot, at) => (dot.group === name && dot.step_s > 0 ? [[dot.peak_bytes / GIB, dot.step_s, at]] : [])),
    })),
  };
}
