// Charts are drawn by Apache ECharts; this file loads it when the first one is shown.
import type { EChartsCoreOption, EChartsType } from "echarts/core";
import { useEffect, useRef } from "preact/hooks";
import { colour, useTheme } from "./theme";

export type Option = EChartsCoreOption | object;

export function Chart(props: {
  option: () => Option; height: number; label: string; click?: (params: any) => void; ready?: (chart: EChartsType) => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType | undefined>(undefined);
  const click = useRef(props.click);
  click.current = props.click;
  const now = useTheme();
  useEffect(() => {
    let gone = false;
    const resized = new ResizeObserver(() => chart.current?.resize());
    import("./echarts").then(({ init }) => {
      if (gone || !place.current) return;
      chart.current ??= init(place.current);
      chart.current.off("click");
      chart.current.on("click", (params) => click.current?.(params));
      chart.current.setOption({ ...base(), ...props.option() }, { notMerge: true });
      resized.observe(place.current);
      props.ready?.(chart.current);
    });
    return () => {
      gone = true;
      resized.disconnect();
    };
  }, [props.option, now]);
  useEffect(() => () => chart.current?.dispose(), []);
  return (
    <div ref={place} class="chart" role="img" aria-label={props.label} style={{ height: `${props.height}px` }} />
  );
}

function base(): Option {
  return {
    animation: false,
    textStyle: { fontFamily: colour("sans"), color: colour("soft"), fontSize: 11 },
  };
}

export function axis(format?: (value: number) => string): object {
  return {
    axisLine: { lineStyle: { color: colour("strong-line") } },
    axisTick: { show: false },
    axisLabel: { color: colour("soft"), fontSize: 11, hideOverlap: true, ...(format && { formatter: format }) },
    splitLine: { lineStyle: { color: colour("line") } },
    nameTextStyle: { color: colour("soft"), fontSize: 11 },
  };
}

export function legend(extra: object = {}): object {
  return {
    type: "scroll", textStyle: { color: colour("soft"), fontSize: 11 }, itemWidth: 12, itemHeight: 8,
    pageTextStyle: { color: colour("soft") }, ...extra,
  };
}

/** A tooltip made of nodes, so that names are text and never markup. */
export function tooltip(content: (params: any) => [string, string][], extra: object = {}): object {
  return {
    confine: true,
    backgroundColor: colour("panel"),
    borderColor: colour("strong-line"),
    formatter: (params: unknown) => {
      const box = document.createElement("div");
      box.className = "tip";
      content(params).forEach(([name, value], index) => {
        const line = document.createElement(index === 0 ? "b" : "div");
        line.textContent = value ? `${name}: ${value}` : name;
        box.append(line);
      });
      return box;
    },
    ...extra,
  };
}
