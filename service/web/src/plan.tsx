// One plan: what it is, and the views of it.
import type { ComponentChildren } from "preact";
import { useGet, view } from "./api";
import { Exports } from "./exports";
import { bytes, count, percent, seconds, short } from "./format";
import { GraphTab } from "./graph";
import { t } from "./i18n";
import { ClusterTab } from "./cluster";
import { MemoryTab } from "./memory";
import { OperatorsTab } from "./operators";
import { Overview } from "./overview";
import { go, link } from "./router";
import { TimelineTab } from "./timeline";
import type { Summary } from "./types";
import { Fact, Kpi, Shown, useKeys } from "./ui";
import { WhatIf } from "./whatif";
import { isSmall } from "./why";

const TABS: [string, string][] = [
  ["overview", "Overview"], ["graph", "Graph"], ["operators", "Operators"], ["timeline", "Timeline"], ["memory", "Memory"],
  ["cluster", "Mesh and cluster"], ["whatif", "What if"], ["export", "Export"],
];

export function PlanPage(props: { id: string; tab: string }) {
  const found = useGet<Summary>(view(props.id, "summary"));
  useKeys((event) => {
    const chosen = TABS[Number(event.key) - 1];
    if (chosen) go(["plans", props.id, chosen[0]]);
  });
  return (
    <>
      <Shown of={found}>{(summary) => <Head id={props.id} summary={summary} />}</Shown>
      {!found.error && (
        <>
          <nav class="tabs" aria-label={t("Views of the plan")}>
            {TABS.map(([name, title]) => (
              <a key={name} ref={name === props.tab ? intoView : null} href={link(["plans", props.id, name])} aria-current={name === props.tab ? "page" : undefined}>{t(title)}</a>
            ))}
          </nav>
          <Tab id={props.id} tab={props.tab} summary={found.data} />
        </>
      )}
    </>
  );
}

/** The tab of the view that is shown, where not all tabs have room. */
function intoView(tab: HTMLElement | null): void {
  tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** What can be asked for without the summary is asked for at once. */
function Tab(props: { id: string; tab: string; summary: Summary | undefined }): ComponentChildren {
  const { id, tab, summary } = props;
  const small = summary !== undefined && isSmall(summary);
  switch (tab) {
    case "graph": return <GraphTab id={id} small={small} />;
    case "operators": return <OperatorsTab id={id} small={small} />;
    case "memory": return <MemoryTab id={id} />;
    case "cluster": return <ClusterTab id={id} />;
  }
  if (summary === undefined) return null;
  switch (tab) {
    case "overview": return <Overview id={id} summary={summary} />;
    case "timeline": return <TimelineTab id={id} model={summary.model} />;
    case "whatif": return <WhatIf id={id} summary={summary} />;
    case "export": return <Exports id={id} summary={summary} />;
    default: return <p>{t("There is no such view.")}</p>;
  }
}

export function meshText(summary: Summary): string {
  return summary.mesh.map(([name, size]) => `${name} ${size}`).join(" × ");
}

function Head(props: { id: string; summary: Summary }) {
  const { summary } = props;
  const limit = summary.memory_limit_bytes ?? 0;
  const ends = summary.expected_s?.map(seconds);
  const expected = ends ? `${t("step, 90 % of comparable published runs")} ${ends.join(" – ")}` : t("step, uncalibrated");
  const again = { cluster: summary.cluster, devices: String(summary.devices), batch: String(summary.batch), target: summary.target, pipeline: summary.pipeline ? "true" : undefined };
  return (
    <>
      <div class="head">
        <div class="grow">
          <h1>{summary.model}</h1>
          <div class="facts">
            <span>{t(summary.training ? "training" : "inference")}</span>
            <span>{t("batch")} {count(summary.batch)}</span>
            <span>{summary.dtype}</span>
            {summary.training && <span>{summary.optimizer}</span>}
            <span>{count(summary.devices)} × {summary.chip} ({summary.cluster})</span>
            <span>{t("mesh")} {meshText(summary)}</span>
            <b>{summary.plan_name}</b>
            <span>{t("for")} {summary.target}</span>
            <span>{short(summary.elements)} {t("parameters")}</span>
          </div>
        </div>
        <a class="button" href={link(["new"], again)}>{t("Search again")}</a>
      </div>
      <div class="kpis">
        <Kpi value={<Fact name="step_s" value={summary.step_time_s} format={seconds} />} name={expected} />
        <Kpi value={<Fact name="samples_per_s" value={summary.samples_per_s ?? 0} format={(value) => `${count(value)}/s`} />} name={t("samples")} />
        {summary.tokens_per_s_per_device && <Kpi value={`${count(summary.tokens_per_s_per_device)}/s`} name={t("tokens of a device")} />}
        {summary.model_flops_utilisation > 0 && (
          <Kpi value={percent(summary.model_flops_utilisation)} name={`${t("MFU of")} ${short(summary.peak_flops / 1e12)} TFLOP/s ${summary.precision}`} />
        )}
        <Kpi
          value={<Fact name="peak_bytes" value={summary.peak_memory_bytes} format={bytes} />} share={limit ? summary.peak_memory_bytes / limit : 0}
          name={limit ? <>{t("peak memory of")} <Fact name="limit_bytes" value={limit} format={bytes} /> ({percent(summary.peak_memory_bytes, limit)})</> : t("peak memory")}
        />
        <Kpi value={t(summary.above_bound)} name={`${t("above the bound")} ${seconds(summary.bound_s)}`} />
        <Kpi value={count(summary.operators)} name={`${t("operators, of")} ${count(summary.model_operators)} ${t("in the model")}`} />
      </div>
    </>
  );
}
