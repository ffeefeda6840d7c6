// One plan: what it is, and the views of it.
import type { ComponentChildren } from "preact";
import { useGet, view } from "./api";
import { Exports } from "./exports";
import { count, short } from "./format";
import { GraphTab } from "./graph";
import { phrases, said, t } from "./i18n";
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

function Head(props: { id: string; summary: Summary }) {
  const { summary } = props;
  const again = { cluster: summary.cluster, devices: String(summary.devices), batch: String(summary.batch), target: summary.target, pipeline: summary.pipeline ? "auto" : undefined };
  return (
    <>
      <div class="head">
        <div class="grow">
          <h1>{summary.model}</h1>
          <div class="facts">
            {summary.about.map((each) => (each === summary.plan_name ? <b key={each}>{each}</b> : <span key={each}>{said(each)}</span>))}
            <span>{short(summary.elements)} {t("parameters")}</span>
            <span>{count(summary.operators)} {t("operators, of")} {count(summary.model_operators)} {t("in the model")}</span>
          </div>
        </div>
        <a class="button" href={link(["new"], again)}>{t("Search again")}</a>
      </div>
      <div class="kpis">
        {summary.figures.map((each) => (
          <Kpi
            key={each.key} value={<Fact name={each.key} value={each.value ?? 0} format={() => said(each.text)} />} name={phrases(each.label)}
            share={each.key === "peak_bytes" && summary.memory_limit_bytes ? each.value! / summary.memory_limit_bytes : undefined}
          />
        ))}
      </div>
    </>
  );
}
