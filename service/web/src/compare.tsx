// Two plans side by side, with the differences marked.
import { useGet, view } from "./api";
import { bytes, count, percent, seconds } from "./format";
import { said, t } from "./i18n";
import { Parts } from "./parts";
import { dotsOf, planTitle, type Listed } from "./plans";
import { go, link } from "./router";
import { Scatter } from "./scatter";
import type { ComparisonView, Summary } from "./types";
import { Panel, Shown, Table } from "./ui";

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
      {both && <Shown of={found}>{(difference) => <Difference found={difference} />}</Shown>}
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
        <p class="soft">{facts.about.map(said).join(" · ")}</p>
      )}
    </Panel>
  );
}

function Difference(props: { found: ComparisonView }) {
  const { found } = props;
  return (
    <>
      {!found.same_model && (
        <div class="note" role="status">{t("These plans are of different models, so their operators are not compared:")} {found.models.join(" · ")}</div>
      )}
      <Panel><Parts of={found.report} /></Panel>
    </>
  );
}
