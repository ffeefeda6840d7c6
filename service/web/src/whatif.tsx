// Sliders: the same splits on other links, more devices, another batch, other memory; simulated at once.
import { useCallback, useEffect } from "preact/hooks";
import { useGet } from "./api";
import { axis, Chart, legend, tooltip } from "./chart";
import { bytes, count, seconds } from "./format";
import { linksBetween, t } from "./i18n";
import { Parts } from "./parts";
import { link, setQuery, useRoute } from "./router";
import { colour, series } from "./theme";
import type { SizesView, Step, Summary, WhatIfView } from "./types";
import { Failure, Panel, useSettled } from "./ui";

export function WhatIf(props: { id: string; summary: Summary }) {
  const { id, summary } = props;
  const { query } = useRoute();
  const power = (name: string) => Number(query.get(name) ?? 0);
  const asked = new URLSearchParams();
  if (power("devices")) asked.set("devices", String(Math.round(summary.devices * 2 ** power("devices"))));
  if (power("batch")) asked.set("batch", String(Math.max(1, Math.round(summary.batch * 2 ** power("batch")))));
  const limit = summary.memory_limit_bytes;
  if (power("memory") && limit) asked.set("memory_bytes", String(limit * 2 ** (power("memory") / 2)));
  for (const tier of summary.tiers) {
    if (power(`bw.${tier.name}`)) asked.append("bandwidth", `${tier.name}:${2 ** (power(`bw.${tier.name}`) / 2)}`);
  }
  const settled = useSettled(asked.toString(), 90);
  const found = useGet<WhatIfView>(`/v1/plans/${encodeURIComponent(id)}/views/whatif?${settled}`);
  const again = {
    cluster: summary.cluster, pipeline: summary.pipeline ? "auto" : undefined, devices: asked.get("devices") ?? String(summary.devices), batch: asked.get("batch") ?? String(summary.batch),
    target: summary.target, memory: asked.has("memory_bytes") ? `${Number(asked.get("memory_bytes")) / 2 ** 30}GiB` : undefined,
  };
  const sizes = useGet<SizesView>(`/v1/plans/${encodeURIComponent(id)}/views/sizes`).data;
  const reset = () => setQuery(Object.fromEntries([...query.keys()].map((key) => [key, undefined])));
  return (
    <div class="grid">
      <Panel width="w4" title={t("What if")} extra={<button onClick={reset}>{t("Reset")}</button>}>
        {!summary.pipeline && <Slider name="devices" title={t("devices")} powers={powers(sizes?.devices, summary.devices)} told={(p) => count(summary.devices * 2 ** p)} />}
        <Slider name="batch" title={t(summary.pipeline ? "global batch" : "batch")} powers={powers(sizes?.batch, summary.batch)} told={(p) => count(Math.max(1, Math.round(summary.batch * 2 ** p)))} />
        {limit !== null && (
          <Slider name="memory" title={t("memory of a device")} powers={[-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4]} told={(p) => bytes(limit * 2 ** (p / 2))} />
        )}
        {summary.tiers.map((tier) => (
          <Slider
            key={tier.name} name={`bw.${tier.name}`} title={`${t("bandwidth of")} ${linksBetween(tier.name)} ${tier.transport}`}
            powers={[-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6]} told={(p) => `× ${Number((2 ** (p / 2)).toPrecision(3))}`}
          />
        ))}
        <p class="soft">{t("The splits stay as planned; the step is priced and simulated anew. Another plan may be better there:")}</p>
        <a class="button" href={link(["new"], again)}>{t("Search there")}</a>
      </Panel>
      <div class="w8">
        {found.error && <Failure error={found.error} />}
        {found.data && !found.error && <Result found={found.data} busy={found.loading} />}
      </div>
    </div>
  );
}

/** Powers of two by which a size may change, so that the splits of the plan still fit. */
function powers(values: number[] | undefined, own: number): number[] {
  return (values ?? [own]).map((value) => Math.log2(value / own));
}

function Slider(props: { name: string; title: string; powers: number[]; told: (power: number) => string }) {
  const { query } = useRoute();
  const { powers } = props;
  const asked = Number(query.get(props.name) ?? 0);
  // A link may ask for what the plan cannot take: the nearest that it can is shown.
  const value = powers.reduce((best, each) => (Math.abs(each - asked) < Math.abs(best - asked) ? each : best), powers[0] ?? 0);
  useEffect(() => {
    if (powers.length > 1 && value !== asked) setQuery({ [props.name]: value ? String(value) : undefined });
  }, [powers.length, value, asked]);
  const choose = (at: string) => setQuery({ [props.name]: powers[Number(at)] ? String(powers[Number(at)]) : undefined });
  const label = `slider-${props.name}`;
  return (
    <div class="slider">
      <div class="row"><label for={label}>{props.title}</label><output for={label}>{props.told(value)}</output></div>
      <input
        id={label} type="range" min="0" max={powers.length - 1} step="1" value={powers.indexOf(value)} aria-valuetext={props.told(value)}
        disabled={powers.length < 2} onInput={(event) => choose(event.currentTarget.value)}
      />
    </div>
  );
}

function Result(props: { found: WhatIfView; busy: boolean }) {
  const { before, after, report } = props.found;
  const option = useCallback(() => chartOf(before, after), [before, after]);
  return (
    <Panel title={t("The step, as planned and as asked")} extra={<span class="soft" role="status">{props.busy ? t("simulating …") : ""}</span>}>
      <Chart option={option} height={150} label={t("The step, as planned and as asked")} />
      <Parts of={[{ ...report, title: "" }]} />
    </Panel>
  );
}

function chartOf(before: Step, after: Step): object {
  const parts: [string, (step: Step) => number, string][] = [
    ["computation", (s) => s.computing_s, series(0)], ["exposed communication", (s) => s.exposed_s, series(4)],
    ["idle (pipeline bubble)", (s) => s.waiting_s, colour("strong-line")],
  ];
  return {
    grid: { left: 90, right: 20, top: 28, bottom: 26 },
    legend: legend({ top: 0 }),
    tooltip: tooltip((params) => [[t(params.seriesName), seconds(params.value)]]),
    xAxis: { type: "value", ...axis(seconds) },
    yAxis: { type: "category", inverse: true, data: [t("as planned"), t("as asked")], ...axis() },
    series: parts.map(([name, of, color]) => ({ name: t(name), type: "bar", stack: "step", color, barWidth: 26, data: [of(before), of(after)] })),
  };
}
