// The plan in one look: time and memory by cause, what weighs most, how good it is, what to ask next.
import { useState } from "preact/hooks";
import { useGet, view } from "./api";
import { seconds, signed } from "./format";
import { linksBetween, overLinks, t } from "./i18n";
import { limitFact, PartPanel, Parts, type Sheet } from "./parts";
import { link } from "./router";
import type { ClusterView, ExplanationView, Summary, WhatIfView } from "./types";
import { Fact, Panel, Shown } from "./ui";
import { isSmall } from "./why";

export function Overview(props: { id: string; summary: Summary }) {
  const { id, summary } = props;
  const { report } = summary;
  return (
    <div class="grid">
      <PartPanel width="w6" title={t("Time of one step")} of={report.time}>
        <HeldUp id={id} />
        <p class="soft"><a href={link(["plans", id, "timeline"])}>{t("Timeline")}</a></p>
      </PartPanel>
      <PartPanel width="w6" of={report.memory} fact={limitFact(report.memory as Sheet, summary.memory_limit_bytes)}>
        <p class="soft"><a href={link(["plans", id, "memory"])}>{t("Memory over time")}</a></p>
      </PartPanel>
      <PartPanel
        width="w12" of={report.operators} open={(row) => link(["plans", id, "graph"], { op: summary.examples[row] })}
        extra={<a href={link(["plans", id, "operators"])}>{t("All operators")}</a>}
      />
      <Explanation id={id} summary={summary} />
      {["quality", "stages", "schemes", "recomputed", "notes"].map((name) => <PartPanel key={name} width="w6" of={report[name]} />)}
    </div>
  );
}

/** Which links hold the step up, however far the collectives reach. */
function HeldUp(props: { id: string }) {
  const { data } = useGet<ClusterView>(view(props.id, "cluster"));
  const tiers = data?.tiers.filter((tier) => tier.time_s > 0) ?? [];
  if (!tiers.length) return null;
  return (
    <p class="soft">{t("Collectives are named after the farthest links that they cross; those that hold the step up:")}{" "}
      {tiers.map((tier, i) => <span key={tier.name}>{i > 0 && ", "}{linksBetween(tier.name)} <b><Fact name={`held_up_s.${tier.name}`} value={tier.time_s} format={seconds} /></b></span>)}.</p>
  );
}

export function causeText(cause: string): string {
  const [kind, tier] = cause.split(" in ");
  return tier ? overLinks(kind!.replaceAll("_", "-"), tier) : t(cause);
}

function Explanation(props: { id: string; summary: Summary }) {
  const [asked, setAsked] = useState(isSmall(props.summary));
  const found = useGet<ExplanationView>(asked ? view(props.id, "explanation") : null);
  return (
    <Panel width="w12" title={t("What limits it, and what would help")}>
      {asked ? <Shown of={found}>{(told) => <Parts of={told.report} />}</Shown> : (
        <>
          <FasterLinks id={props.id} summary={props.summary} />
          <p class="soft">{t("Every other plan is weighed for this; with so many operators it takes a while.")}{" "}
            <button onClick={() => setAsked(true)}>{t("Explain")}</button></p>
        </>
      )}
    </Panel>
  );
}

/** The same splits on links twice as fast, one kind of link after the other. */
function FasterLinks(props: { id: string; summary: Summary }) {
  return (
    <table>
      <thead><tr><th scope="col">{t("links")}</th><th scope="col" class="right">{t("faster")}</th><th scope="col" class="right">{t("step")}</th>
        <th scope="col" class="right">{t("change")}</th></tr></thead>
      <tbody>{props.summary.tiers.map((tier) => <FasterLink key={tier.name} id={props.id} tier={tier.name} />)}</tbody>
    </table>
  );
}

function FasterLink(props: { id: string; tier: string }) {
  const { data } = useGet<WhatIfView>(view(props.id, "whatif", { bandwidth: `${props.tier}:2` }));
  return (
    <tr>
      <td><a href={link(["plans", props.id, "whatif"], { [`bw.${props.tier}`]: "2" })}>{linksBetween(props.tier)}</a></td><td class="right">× 2</td>
      <td class="right">{data ? seconds(data.after.step_s) : "…"}</td>
      <td class="right">{data ? signed(data.after.step_s - data.before.step_s, seconds, data.before.step_s) : ""}</td>
    </tr>
  );
}
