// Two plans side by side, with the differences marked.
import { useGet, view } from "./api";
import { bytes, count, percent, seconds, signed } from "./format";
import { t } from "./i18n";
import { causeText } from "./overview";
import { dotsOf, planTitle, type Listed } from "./plans";
import { go, link } from "./router";
import { Scatter } from "./scatter";
import type { Amount, Change, ComparisonView, Summary } from "./types";
import { Kpi, Panel, Shown, Table } from "./ui";

export function Compare(props: { ids: string[] }) {
  const [first = "", second = ""] = props.ids;
  if (props.ids.length > 2) return <Several ids={props.ids} />;
  return <Two first={first} second={second} />;
}

/** More than two plans: their figures in a table, and steps against memory. */
function Several(props: { ids: string[] }) {
  const found = useGet<Listed[]>("/v1/plans");
  return (
    <>
      <div class="head"><h1 class="grow">{t("Plans side by side")}</h1></div>
      <Shown of={found}>{(all) => {
        const rows = props.ids.map((id) => all.find((row) => row.id === id)).filter((row) => row !== undefined);
        const best = Math.min(...rows.map((row) => row.step_time_s ?? Infinity));
        return (
          <div class="grid">
            <Panel width="w12">
              <Table<Listed>
                label={t("Plans side by side")} rows={rows} id={(row) => row.id} isMarked={(row) => row.step_time_s === best}
                columns={[
                  { key: "name", title: t("model"), sort: planTitle, show: (row) => <a href={link(["plans", row.id])}>{planTitle(row)}</a> },
                  { key: "plan", title: t("plan"), sort: (row) => row.plan_name ?? "", show: (row) => row.plan_name ?? "" },
                  { key: "devices", title: t("devices"), right: true, sort: (row) => row.devices ?? 0, show: (row) => `${row.devices ?? ""} × ${row.cluster ?? ""}` },
                  { key: "batch", title: t("batch"), right: true, sort: (row) => row.batch ?? 0, show: (row) => row.batch ?? "" },
                  { key: "step", title: t("step"), right: true, sort: (row) => row.step_time_s ?? 0, show: (row) => seconds(row.step_time_s) },
                  { key: "speed", title: t("samples/s"), right: true, sort: (row) => row.samples_per_s ?? 0, show: (row) => (row.samples_per_s ? count(row.samples_per_s) : "") },
                  { key: "each", title: t("samples/s of a device"), right: true, sort: (row) => eachOf(row) ?? 0, show: (row) => (eachOf(row) === null ? "" : count(eachOf(row)!)) },
                  { key: "mfu", title: "MFU", right: true, sort: (row) => row.model_flops_utilisation ?? 0, show: (row) => (row.model_flops_utilisation ? percent(row.model_flops_utilisation) : "") },
                  { key: "peak", title: t("peak memory"), right: true, sort: (row) => row.peak_memory_bytes ?? 0, show: (row) => bytes(row.peak_memory_bytes) },
                  { key: "beside", title: t("compared with the first"), show: (row) => (row === rows[0] ? "" : <a href={link(["compare", rows[0]!.id, row.id])}>{t("side by side")}</a>) },
                ]}
              />
            </Panel>
            <Panel width="w12" title={t("Step against memory")}><Scatter dots={dotsOf(rows)} /></Panel>
          </div>
        );
      }}</Shown>
    </>
  );
}

function eachOf(row: Listed): number | null {
  return row.samples_per_s && row.devices ? row.samples_per_s / row.devices : null;
}

function Two(props: { first: string; second: string }) {
  const { first, second } = props;
  const both = first && second;
  const found = useGet<ComparisonView>(both ? view(first, `compare/${encodeURIComponent(second)}`) : null);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Two plans side by side")}</h1></div>
      <div class="grid">
        <Side name="A" id={first} other={second} isFirst />
        <Side name="B" id={second} other={first} isFirst={false} />
      </div>
      <p />
      {both && <Shown of={found}>{(difference) => <Difference first={first} second={second} found={difference} />}</Shown>}
    </>
  );
}

function Side(props: { name: string; id: string; other: string; isFirst: boolean }) {
  const plans = useGet<Listed[]>("/v1/plans");
  const summary = useGet<Summary>(props.id ? view(props.id, "summary") : null);
  const known = plans.data ?? [];
  const choose = (id: string) => go(props.isFirst ? ["compare", id, props.other] : ["compare", props.other, id]);
  const facts = summary.data;
  return (
    <Panel width="w6" title={`${props.name} · ${facts?.model ?? ""}`} extra={props.id && <a href={link(["plans", props.id])}>{t("Open the plan")}</a>}>
      <label class="field"><span>{t("plan")}</span>
        <select value={props.id} onChange={(event) => choose(event.currentTarget.value)}>
          {!known.some((plan) => plan.id === props.id) && <option value={props.id}>{props.id || "–"}</option>}
          {known.filter((plan) => plan.step_time_s).map((plan) => <option key={plan.id} value={plan.id}>{`${planTitle(plan)} · ${plan.devices} · ${seconds(plan.step_time_s)} · ${plan.id.slice(0, 10)}`}</option>)}
        </select></label>
      {facts && (
        <p class="soft">{count(facts.devices)} × {facts.chip} ({facts.cluster}) · {t("batch")} {count(facts.batch)} · {t("for")} {facts.target} · {facts.mesh.map(([n, s]) => `${n} ${s}`).join(" × ")}</p>
      )}
    </Panel>
  );
}

function Difference(props: { first: string; second: string; found: ComparisonView }) {
  const { found } = props;
  const step = found.step_time_s;
  const peak = found.peak_memory_bytes;
  const name = (cause: string) => causeText(cause);
  return (
    <>
      <div class="kpis">
        <Kpi value={`${seconds(step.first)} → ${seconds(step.second)}`} name={`${t("step")}: ${change(step)}`} />
        <Kpi value={`${bytes(peak.first)} → ${bytes(peak.second)}`} name={`${t("peak memory")}: ${change(peak)}`} />
        {found.same_model && <Kpi value={`${count(found.changed.length)}`} name={`${t("operators split differently, of")} ${count(found.common)}`} />}
        {found.same_model && <Kpi value={`${count(found.only_first)} · ${count(found.only_second)}`} name={t("only in A · only in B")} />}
      </div>
      {!found.same_model && (
        <div class="note" role="status">{t("These plans are of different models, so their operators are not compared:")} {found.models.join(" · ")}</div>
      )}
      <div class="grid">
        <Panel width="w6" title={t("Time of one step")}><Amounts rows={found.time_by_cause} whole={step} format={seconds} name={name} /></Panel>
        <Panel width="w6" title={t("Peak memory of a device")}><Amounts rows={found.memory_by_cause} whole={peak} format={bytes} name={name} /></Panel>
        {found.facts.length > 0 && (
          <Panel width="w12" title={t("What was asked differently")}>
            <table><thead><tr><th scope="col" /><th scope="col">A</th><th scope="col">B</th></tr></thead>
              <tbody>{found.facts.map((fact) => <tr key={fact.name} class="marked"><td>{t(fact.name)}</td><td class="name">{fact.first}</td><td class="name">{fact.second}</td></tr>)}</tbody></table>
          </Panel>
        )}
        {found.same_model && <Panel width="w12" title={t("Operators that are split differently")}><Changes rows={found.operators} label={t("Operators that are split differently")} /></Panel>}
        {found.same_model && <Panel width="w12" title={t("Parameters that rest differently")}><Changes rows={found.parameters} label={t("Parameters that rest differently")} /></Panel>}
      </div>
    </>
  );
}

function change(amount: Amount): string {
  if (!amount.first) return "–";
  const share = amount.second / amount.first - 1;
  return signed(share, (value) => percent(value));
}

function Amounts(props: { rows: Amount[]; whole: Amount; format: (value: number) => string; name: (cause: string) => string }) {
  const line = (row: Amount, name: string, strong = false) => (
    <tr key={row.name} class={row.first !== row.second ? "marked" : ""}>
      <td>{strong ? <b>{name}</b> : name}</td><td class="right">{props.format(row.first)}</td><td class="right">{props.format(row.second)}</td>
      <td class="right">{signed(row.second - row.first, props.format)}</td>
    </tr>
  );
  return (
    <table>
      <thead><tr><th scope="col">{t("cause")}</th><th scope="col" class="right">A</th><th scope="col" class="right">B</th><th scope="col" class="right">B − A</th></tr></thead>
      <tbody>{props.rows.map((row) => line(row, props.name(row.name)))}{line(props.whole, t("whole"), true)}</tbody>
    </table>
  );
}

function Changes(props: { rows: Change[]; label: string }) {
  if (!props.rows.length) return <p class="soft">{t("None.")}</p>;
  return (
    <Table<Change>
      label={props.label} rows={props.rows} id={(row) => row.name + row.first + row.second} most={40} isMarked={() => true}
      columns={[
        { key: "name", title: t("name"), name: true, show: (row) => row.name },
        { key: "count", title: t("count"), right: true, sort: (row) => row.count, show: (row) => row.count },
        { key: "a", title: "A", name: true, show: (row) => row.first },
        { key: "b", title: "B", name: true, show: (row) => row.second },
        { key: "time", title: t("computation in A"), right: true, sort: (row) => row.compute_s, show: (row) => seconds(row.compute_s) },
      ]}
    />
  );
}
