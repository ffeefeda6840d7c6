// The panel "why": what was chosen for an operator, its rivals, and what forces it.
import { useState } from "preact/hooks";
import { useGet, view } from "./api";
import { causeText } from "./overview";
import { bytes, seconds, signed } from "./format";
import { said, t } from "./i18n";
import { link } from "./router";
import type { Candidate, CostPart, Summary, WhyView } from "./types";
import { Panel, Shown } from "./ui";

const SMALL = 600;
const SMALL_WITH_STAGES = 1500;

/** Whether a whole explanation is there in seconds; else it waits until somebody asks. Each stage is a problem of its own. */
export function isSmall(summary: Summary): boolean {
  return summary.operators <= (summary.pipeline ? SMALL_WITH_STAGES : SMALL);
}

/** At a glance first; all else chosen anew when that is there, or when somebody asks for it. */
export function Why(props: { id: string; op: string; small: boolean; close?: () => void }) {
  const path = `why/${encodeURIComponent(props.op)}`;
  const [asked, setAsked] = useState("");
  const glance = useGet<WhyView>(view(props.id, path, { glance: "true" }));
  const isWanted = props.small ? glance.data?.name === props.op : asked === props.op;
  const whole = useGet<WhyView>(isWanted ? view(props.id, path) : null);
  const isThere = isWanted && whole.data?.name === props.op;
  const found = isThere ? whole : glance;
  const extra = props.close && <button class="plain" onClick={props.close} aria-label={t("Close")}>✕</button>;
  return (
    <Panel title={t("Why")} extra={extra}>
      <p class="mono"><b>{props.op}</b></p>
      <Shown of={found}>{(why) => (
        <>
          <p class="soft">{why.label}{why.scope && <> · <span class="mono">{why.scope}</span></>} · {why.candidates} {t("candidates")}</p>
          {why.place && <p class="soft">{t("Stage")} {why.place.stage} {t("of")} {why.place.stages} · {why.place.micro_batches} {t("micro-batches")}</p>}
          <h3>{t("Chosen")}</h3>
          <Chosen candidate={why.chosen} />
          {why.memory && <p>{why.memory.is_binding
            ? `${t("Memory binds the plan")}: ${seconds(why.memory.price_s_per_gib)} ${t("for each GiB")}.`
            : t("Memory does not bind the plan.")}</p>}
          <h3>{t("Rivals, and why they are not chosen")}</h3>
          {why.rivals.length === 0 && <p class="soft">{t("There is no other way to split it.")}</p>}
          {why.rivals.map((rival, i) => <RivalRow key={i} rival={rival} />)}
          {why.glance && <p class="soft">{t("With all else as planned.")}{" "}
            {isWanted
              ? <span role="status">{whole.error ? said(whole.error.message) : `${t("All else is chosen anew")} …`}</span>
              : <button onClick={() => setAsked(props.op)}>{t("Choose all else anew")}</button>}</p>}
          {why.neighbours.length > 0 && <Neighbours id={props.id} why={why} />}
        </>
      )}</Shown>
    </Panel>
  );
}

export function layoutsOf(candidate: Candidate): string {
  return `${candidate.inputs.join(" ")} → ${candidate.outputs.join(" ")}`;
}

function Chosen(props: { candidate: Candidate }) {
  const { candidate } = props;
  return (
    <>
      {candidate.cuts && <p class="mono">{candidate.cuts}</p>}
      <p class="mono soft">{layoutsOf(candidate)}</p>
      <table>
        <tbody>
          {candidate.parts.slice(0, 8).map((part, i) => (
            <PartRow key={i} part={part} />
          ))}
          <tr><td><b>{t("its own cost and the edges at it")}</b></td><td class="right"><b>{seconds(candidate.local_s)}</b></td></tr>
          {candidate.memory_bytes !== undefined && <tr><td>{t("memory at the peak")}</td><td class="right">{bytes(candidate.memory_bytes)}</td></tr>}
        </tbody>
      </table>
    </>
  );
}

function PartRow(props: { part: CostPart }) {
  const { part } = props;
  return (
    <tr>
      <td>{causeText(part.cause)}{part.purpose && <span class="soft"> · {t(part.purpose)}</span>}
        {part.neighbour && <div class="mono soft">{said(part.neighbour)}</div>}</td>
      <td class="right">{seconds(part.time_s)}{part.hidden_s > 0 && <div class="soft">{t("hidden")} {seconds(part.hidden_s)}</div>}</td>
    </tr>
  );
}

function RivalRow(props: { rival: Candidate }) {
  const { rival } = props;
  const delta = rival.delta_s === undefined ? rival.fixed_delta_s : rival.delta_s;
  const cost = delta === null ? t("nothing fits with it") : `${signed(delta, seconds)} ${t("in a step")}`;
  return (
    <details>
      <summary><span class="mono">{rival.cuts || rival.outputs.join(" ")}</span> <b class="nowrap">{cost}</b></summary>
      <p class="mono soft">{layoutsOf(rival)}</p>
      {rival.delta_s !== undefined && <p>{t("with all else as planned")}: {signed(rival.fixed_delta_s, seconds)}</p>}
      {rival.reasons?.map((reason, i) => (
        <div key={i} class={reason.decisive ? "reason decisive" : "reason"}>{said(reason.text)}</div>
      ))}
      <table><tbody>{rival.parts.slice(0, 5).map((part, i) => <PartRow key={i} part={part} />)}</tbody></table>
      {rival.also_changed !== undefined && rival.also_changed.length > 0 && <p class="soft">{t("would change too")}: <span class="mono">{rival.also_changed.join(", ")}</span></p>}
    </details>
  );
}

function Neighbours(props: { id: string; why: WhyView }) {
  return (
    <>
      <h3>{t("What the neighbours hold it to")}</h3>
      <table>
        <thead><tr><th scope="col">{t("neighbour")}</th><th scope="col">{t("its layout")}</th><th scope="col" class="right">{t("costs")}</th></tr></thead>
        <tbody>{props.why.neighbours.slice(0, 8).map((row, i) => (
          <tr key={i}>
            <td class="name">{row.kind === "operator" ? <a href={link(["plans", props.id, "graph"], { op: row.name })}>{row.name}</a> : row.name}</td>
            <td class="mono">{row.layout}</td><td class="right">{seconds(row.time_s)}</td>
          </tr>
        ))}</tbody>
      </table>
    </>
  );
}
