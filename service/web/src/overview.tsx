// The plan in one look: time and memory by cause, what weighs most, how good it is, what to ask next.
import { useState } from "preact/hooks";
import { useGet, view } from "./api";
import { bytes, count, percent, seconds, signed } from "./format";
import { linksBetween, overLinks, said, t } from "./i18n";
import { link } from "./router";
import type { ClusterView, ExplanationView, Summary, WhatIfView } from "./types";
import { Causes, Fact, Pairs, Panel, Shown, Table } from "./ui";
import { isSmall } from "./why";

export function Overview(props: { id: string; summary: Summary }) {
  const { id, summary } = props;
  return (
    <div class="grid">
      <Panel width="w6" title={t("Time of one step")}>
        <Causes
          head={t("cause")} format={seconds} total={summary.step_s}
          rows={summary.time_by_cause.map((row) => ({
            name: causeText(row.cause), value: row.time_s,
            detail: [...Object.keys(row.purposes).map((each) => t(each)), ...(row.hidden_s ? [`${t("hidden")} ${seconds(row.hidden_s)}`] : [])].join(", "),
          }))}
        />
        <HeldUp id={id} />
        <p class="soft">{said(summary.overlap)}{" "}
          <a href={link(["plans", id, "timeline"])}>{t("Timeline")}</a></p>
      </Panel>
      <Panel width="w6" title={t("Peak memory of a device")}>
        <Causes
          head={t("cause")} format={bytes} total={summary.peak_bytes}
          rows={Object.entries(summary.memory_by_cause).map(([name, value]) => ({ name: t(name), value }))}
        />
        <p class="soft">{limitText(summary)} <a href={link(["plans", id, "memory"])}>{t("Memory over time")}</a></p>
      </Panel>
      <Heaviest id={id} summary={summary} />
      <Explanation id={id} summary={summary} />
      <Quality summary={summary} />
      {summary.pipeline && <Stages summary={summary} />}
      {summary.baselines.length > 0 && <Beside summary={summary} />}
      {summary.recomputed.length > 0 && (
        <Panel width="w6" title={t("Recomputed in the backward pass, to save memory")}>
          <table><tbody>{summary.recomputed.slice(0, 12).map((row) => (
            <tr key={row.what}><td class="right">{row.count} ×</td><td class="name">{row.what}</td></tr>
          ))}</tbody></table>
        </Panel>
      )}
      <Panel width="w6" title={t("Notes")}>
        <ul>{summary.notes.map((note) => <li key={note}>{said(note)}</li>)}</ul>
      </Panel>
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

function limitText(summary: Summary) {
  const { limit_bytes, peak_bytes } = summary;
  if (limit_bytes === null) return t("No limit was given.");
  return <>{percent(peak_bytes, limit_bytes)} {t("of the limit of")} <Fact name="limit_bytes" value={limit_bytes} format={bytes} />.</>;
}

function Heaviest(props: { id: string; summary: Summary }) {
  const { pipeline, step_s } = props.summary;
  const total = step_s * (pipeline ? pipeline.stages.length / pipeline.chunks : 1);
  return (
    <Panel width="w12" title={t("What costs most")} extra={<a href={link(["plans", props.id, "operators"])}>{t("All operators")}</a>}>
      {pipeline && <p class="soft">%: {t("of the time of all stages")}</p>}
      <Table
        label={t("What costs most")} rows={props.summary.heaviest} id={(row) => row.example + row.layouts}
        columns={[
          { key: "what", title: t("operators"), show: (row) => (
            <a href={link(["plans", props.id, "graph"], { op: row.example })}><b>{row.label}</b> <code>{row.where}</code></a>
          ) },
          { key: "count", title: t("count"), right: true, show: (row) => row.count },
          { key: "time", title: t("time"), right: true, show: (row) => seconds(row.time_s) },
          { key: "share", title: "%", right: true, show: (row) => percent(row.time_s, total) },
          { key: "compute", title: t("computation"), right: true, show: (row) => seconds(row.compute_s) },
          { key: "moved", title: t("communication"), right: true, show: (row) => seconds(row.communication_s) },
          { key: "held", title: t("held"), right: true, show: (row) => bytes(row.held_bytes) },
          { key: "layouts", title: t("layouts"), name: true, show: (row) => row.layouts },
        ]}
      />
    </Panel>
  );
}

function Explanation(props: { id: string; summary: Summary }) {
  const [asked, setAsked] = useState(isSmall(props.summary));
  const found = useGet<ExplanationView>(asked ? view(props.id, "explanation") : null);
  if (!asked) {
    const [largest] = Object.entries(props.summary.memory_by_cause).sort((a, b) => b[1] - a[1]);
    return (
      <Panel width="w6" title={t("What limits it, and what would help")}>
        <p>{limitText(props.summary)} {t("Most is held by")} <b>{largest && t(largest[0])}</b> ({bytes(largest?.[1])}).</p>
        <FasterLinks id={props.id} summary={props.summary} />
        <p class="soft">{t("Every other plan is weighed for this; with so many operators it takes a while.")}{" "}
          <button onClick={() => setAsked(true)}>{t("Explain")}</button></p>
      </Panel>
    );
  }
  return (
    <Panel width="w6" title={t("What limits it, and what would help")}>
      <Shown of={found}>{(told) => (
        <>
          <p>{told.memory.is_binding
            ? <>{t("Memory binds: one GiB more per device would save about")} <b>{seconds(told.memory.price_s_per_gib)}</b> {t("of a step.")}</>
            : t("Memory does not bind: with more of it the plan would be the same.")}{" "}
            {told.holders[0] && <>{t("Most is held by")} <b>{t(told.holders[0].cause)}</b> ({bytes(told.holders[0].nbytes)}; {t("largest")}: <code>{told.holders[0].largest}</code>).</>}
          </p>
          {told.limits.length > 0 && <ul>{told.limits.map((limit) => <li key={limit}>{said(limit)}</li>)}</ul>}
          <table>
            <thead><tr><th scope="col">{t("links")}</th><th scope="col" class="right">{t("faster")}</th><th scope="col" class="right">{t("this plan")}</th>
              <th scope="col" class="right">{t("best plan there")}</th><th scope="col" class="right">{t("change")}</th></tr></thead>
            <tbody>{told.links.map((row) => (
              <tr key={row.tier}><td>{linksBetween(row.tier)}</td><td class="right">× {row.factor}</td><td class="right">{seconds(row.same_plan_s)}</td>
                <td class="right">{seconds(row.best_s)}</td>
                <td class="right">{signed(row.best_s - told.step_time_s, seconds, told.step_time_s)}{row.plan_changes ? ` · ${t("another plan")}` : ""}</td></tr>
            ))}</tbody>
          </table>
          {told.rivals.length > 0 && <Rivals rivals={told.rivals} />}
        </>
      )}</Shown>
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

function Rivals(props: { rivals: ExplanationView["rivals"] }) {
  return (
    <table>
      <thead><tr><th scope="col">{t("nearest rivals")}</th><th scope="col" class="right">{t("a step takes")}</th><th scope="col">{t("why not")}</th></tr></thead>
      <tbody>{props.rivals.slice(0, 5).map((row) => (
        <tr key={row.name}><td class="name">{t(row.name) === row.name ? said(row.name) : t(row.name)}</td><td class="right">{row.delta_s === null ? "–" : signed(row.delta_s, seconds)}</td><td>{said(row.reason)}</td></tr>
      ))}</tbody>
    </table>
  );
}

function Quality(props: { summary: Summary }) {
  const { bound, space } = props.summary;
  const proof = bound.proof === "optimal"
    ? `${t("No plan of the space is faster; proven by")} ${bound.solver}.`
    : `${t("No plan of the space takes less than")} ${seconds(bound.bound_s)} (${bound.solver}).`;
  return (
    <Panel width="w6" title={t("How good it is")}>
      <p>{proof} {bound.truncated && <b class="warn">{t("The time limit cut the search short.")}</b>}</p>
      <Pairs rows={[
        [t("dialect"), space.dialect],
        [t("decisions"), count(space.nodes)],
        [t("candidates"), `${count(space.candidates)}, ${t("at most")} ${count(space.largest)} ${t("each")}, ${count(space.left_out)} ${t("left out")}`],
        [t("plans"), <>10<sup>{space.log10_plans.toFixed(0)}</sup></>],
        [t("meshes"), space.meshes.map((mesh) => mesh.map(([name, size]) => `${name} ${size}`).join(" × ")).join("; ")],
      ]} />
    </Panel>
  );
}

function Beside(props: { summary: Summary }) {
  const step = props.summary.step_s;
  return (
    <Panel width="w6" title={t("Beside schemes that have a name")}>
      <table>
        <thead><tr><th scope="col">{t("scheme")}</th><th scope="col" class="right">{t("step")}</th><th scope="col" class="right">{t("plan is")}</th>
          <th scope="col" class="right">{t("peak memory")}</th><th scope="col">{t("remark")}</th></tr></thead>
        <tbody>{props.summary.baselines.map((row) => (
          <tr key={row.name}><td>{t(row.name)}</td><td class="right">{seconds(row.step_time_s)}</td>
            <td class="right">{row.fits && row.step_time_s ? `${(row.step_time_s / step).toFixed(2)} × ${t("faster")}` : "–"}</td>
            <td class="right">{bytes(row.peak_memory_bytes)}</td><td>{said(row.reason)}</td></tr>
        ))}</tbody>
      </table>
    </Panel>
  );
}

function Stages(props: { summary: Summary }) {
  const pipeline = props.summary.pipeline!;
  return (
    <Panel width="w6" title={t("Stages of the pipeline")}>
      <p>{pipeline.schedule}, {pipeline.micro_batches} {t("micro-batches of")} {pipeline.micro_batch}</p>
      <table>
        <thead><tr><th scope="col">{t("stage")}</th><th scope="col" class="right">{t("operators")}</th><th scope="col" class="right">{t("forward")}</th>
          <th scope="col" class="right">{t("backward")}</th><th scope="col" class="right">{t("once")}</th><th scope="col" class="right">{t("peak memory")}</th></tr></thead>
        <tbody>{pipeline.stages.map((stage, i) => (
          <tr key={i}><td>{i}</td><td class="right">{stage.end - stage.start}</td><td class="right">{seconds(stage.forward_s)}</td>
            <td class="right">{seconds(stage.backward_s)}</td><td class="right">{seconds(stage.once_s)}</td>
            <td class="right">{bytes(stage.peak_memory_bytes)}</td></tr>
        ))}</tbody>
      </table>
    </Panel>
  );
}
