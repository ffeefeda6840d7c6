// All plans: found, named, compared, and drawn as steps against memory.
import { useState } from "preact/hooks";
import { post, useGet } from "./api";
import { bytes, count, percent, seconds, when } from "./format";
import { t } from "./i18n";
import { AT_ONCE, Filter, Manage, Marks, matching, tagsOf, titleOf } from "./lists";
import { Drop } from "./models";
import { go, link } from "./router";
import { Scatter } from "./scatter";
import type { Item, Job } from "./types";
import { Failure, Panel, Shown, Table, type Column } from "./ui";

export interface Listed extends Item {
  step_time_s?: number;
  devices?: number;
  batch?: number;
  cluster?: string;
  model_name?: string;
  plan_name?: string;
  peak_memory_bytes?: number;
  samples_per_s?: number | null;
  model_flops_utilisation?: number;
  gap?: number | null;
}

export const MOST_COMPARED = 12;

/** What a plan is called in lists. */
export function planTitle(row: Listed): string {
  return titleOf(row, row.model_name ?? row.name);
}

export function Plans() {
  const [version, setVersion] = useState(0);
  const found = useGet<Listed[]>("/v1/plans", version);
  const [marked, setMarked] = useState<string[]>([]);
  const [words, setWords] = useState("");
  const mark = (id: string) =>
    setMarked(marked.includes(id) ? marked.filter((each) => each !== id) : [...marked, id].slice(-MOST_COMPARED));
  const again = () => setVersion((old) => old + 1);
  return (
    <>
      <div class="head">
        <h1 class="grow">{t("Plans")}</h1>
        <button disabled={marked.length < 2} onClick={() => go(["compare", ...marked])}>{t("Compare those that are marked")} ({marked.length})</button>
        <a class="button primary" href="#/new">{t("New search")}</a>
      </div>
      <Shown of={found}>{(rows) => {
        if (!rows.length) return <FirstRun />;
        const shown = matching(rows, words, textOf);
        return (
          <>
            <Panel>
              <Filter value={words} change={setWords} shown={shown.length} all={rows.length} />
              <Table<Listed> label={t("Plans")} rows={shown} id={(row) => row.id} columns={columns(marked, mark, again)} most={AT_ONCE} />
            </Panel>
            <p />
            {shown.filter((row) => row.step_time_s).length > 1 && (
              <Panel title={t("Step against memory")}><Scatter dots={dotsOf(shown)} /></Panel>
            )}
          </>
        );
      }}</Shown>
      <p class="soft">{t("Mark plans to compare them side by side.")}</p>
      <details>
        <summary>{t("Upload a plan")}</summary>
        <Drop kind="plans" done={again} />
      </details>
    </>
  );
}

/** Nothing is there yet: what one can begin with. */
function FirstRun() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const asked = async (begin: () => Promise<void>) => {
    setBusy(true);
    try {
      await begin();
    } catch (found) {
      setError(found as Error);
      setBusy(false);
    }
  };
  const search = async () => {
    const { job } = await post<Job>("/v1/searches", { model: "gpt2", options: { devices: 8, batch: 32 } });
    go(["jobs", job], { then: "plan" });
  };
  const look = async () => go(["plans", (await post<Item>("/v1/plans/sample", {})).id]);
  return (
    <Panel title={t("No plans yet.")}>
      <p>{t("Begin with a published model, or drop a file of your own: an ONNX file or a config.json, weights are not needed.")}</p>
      <p class="row">
        <button class="primary" disabled={busy} onClick={() => void asked(search)}>{t("Try GPT-2 on 8 cards")}</button>
        <button disabled={busy} onClick={() => void asked(look)}>{t("Look at a sample plan")}</button>
        <a class="button" href="#/new">{t("New search")}</a>
      </p>
      {error && <Failure error={error} />}
    </Panel>
  );
}

function textOf(row: Listed): string {
  return [planTitle(row), row.name, row.plan_name, row.cluster, row.devices, row.id, ...tagsOf(row)].join(" ");
}

export function dotsOf(rows: Listed[]) {
  return rows.flatMap((row) => (row.step_time_s && row.peak_memory_bytes
    ? [{
        name: `${planTitle(row)} · ${row.plan_name ?? ""} · ${row.devices} × ${row.cluster}`, group: row.model_name ?? row.name, step_s: row.step_time_s,
        peak_bytes: row.peak_memory_bytes, open: () => go(["plans", row.id]),
      }]
    : []));
}

function columns(marked: string[], mark: (id: string) => void, again: () => void): Column<Listed>[] {
  return [
    { key: "mark", title: "", show: (row) => row.state !== "refused" && (
      <input type="checkbox" aria-label={`${t("Mark")} ${planTitle(row)} ${row.id}`} checked={marked.includes(row.id)} onChange={() => mark(row.id)} />
    ) },
    { key: "name", title: t("model"), sort: planTitle, show: (row) => (
      <>{row.state === "refused" ? planTitle(row) : <a href={link(["plans", row.id])}>{planTitle(row)}</a>} <Marks item={row} /></>
    ) },
    { key: "plan", title: t("plan"), sort: (row) => row.plan_name ?? "", show: (row) => row.plan_name ?? "" },
    { key: "devices", title: t("devices"), right: true, sort: (row) => row.devices ?? 0, show: (row) => row.devices ?? "" },
    { key: "batch", title: t("batch"), right: true, sort: (row) => row.batch ?? 0, show: (row) => row.batch ?? "" },
    { key: "cluster", title: t("cluster"), sort: (row) => row.cluster ?? "", show: (row) => row.cluster ?? "" },
    { key: "step", title: t("step"), right: true, sort: (row) => row.step_time_s ?? 0, show: (row) => (row.step_time_s ? seconds(row.step_time_s) : "") },
    { key: "speed", title: t("samples/s"), right: true, sort: (row) => row.samples_per_s ?? 0, show: (row) => (row.samples_per_s ? count(row.samples_per_s) : "") },
    { key: "mfu", title: "MFU", right: true, sort: (row) => row.model_flops_utilisation ?? 0,
      show: (row) => (row.model_flops_utilisation ? percent(row.model_flops_utilisation) : "") },
    { key: "peak", title: t("peak memory"), right: true, sort: (row) => row.peak_memory_bytes ?? 0, show: (row) => (row.peak_memory_bytes ? bytes(row.peak_memory_bytes) : "") },
    { key: "gap", title: t("gap"), right: true, sort: (row) => row.gap ?? Infinity, show: (row) => (typeof row.gap === "number" ? percent(row.gap) : "") },
    { key: "made", title: t("made"), sort: (row) => row.created_at ?? 0, show: (row) => when(row.created_at) },
    { key: "manage", title: "", show: (row) => <Manage kind="plans" item={row} changed={again} /> },
  ];
}
