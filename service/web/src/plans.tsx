// All plans; two of them can be marked and compared.
import { useState } from "preact/hooks";
import { useGet } from "./api";
import { bytes, count, seconds, when } from "./format";
import { t } from "./i18n";
import { Drop } from "./models";
import { go, link } from "./router";
import type { Item } from "./types";
import { Panel, Shown, Table } from "./ui";

export interface Listed extends Item {
  step_time_s?: number;
  devices?: number;
  cluster?: string;
  model_name?: string;
  peak_memory_bytes?: number;
}

export function Plans() {
  const [version, setVersion] = useState(0);
  const found = useGet<Listed[]>("/v1/plans", version);
  const [marked, setMarked] = useState<string[]>([]);
  const mark = (id: string) =>
    setMarked(marked.includes(id) ? marked.filter((each) => each !== id) : [...marked, id].slice(-2));
  return (
    <>
      <div class="head">
        <h1 class="grow">{t("Plans")}</h1>
        <button disabled={marked.length !== 2} onClick={() => go(["compare", marked[0]!, marked[1]!])}>
          {t("Compare the two that are marked")}
        </button>
        <a class="button primary" href="#/new">{t("New search")}</a>
      </div>
      <Panel>
        <Shown of={found}>{(rows) => {
          if (!rows.length) return <p>{t("No plans yet.")} <a href="#/new">{t("New search")}</a></p>;
          return (
            <Table<Listed>
              label={t("Plans")} rows={rows} id={(row) => row.id}
              columns={[
                { key: "mark", title: "", show: (row) => (
                  <input
                    type="checkbox" aria-label={`${t("Mark")} ${row.name} ${row.id}`} checked={marked.includes(row.id)}
                    onChange={() => mark(row.id)}
                  />
                ) },
                { key: "name", title: t("model"), sort: (row) => row.model_name ?? row.name,
                  show: (row) => <a href={link(["plans", row.id])}>{row.model_name ?? row.name}</a> },
                { key: "devices", title: t("devices"), right: true, sort: (row) => row.devices ?? 0,
                  show: (row) => row.devices ?? "" },
                { key: "cluster", title: t("cluster"), sort: (row) => row.cluster ?? "", show: (row) => row.cluster ?? "" },
                { key: "step", title: t("step"), right: true, sort: (row) => row.step_time_s ?? 0,
                  show: (row) => seconds(row.step_time_s) },
                { key: "peak", title: t("peak memory"), right: true, sort: (row) => row.peak_memory_bytes ?? 0,
                  show: (row) => bytes(row.peak_memory_bytes) },
                { key: "made", title: t("made"), sort: (row) => row.created_at ?? 0, show: (row) => when(row.created_at) },
                { key: "id", title: t("id"), show: (row) => <code>{row.id.slice(0, 12)}</code> },
              ]}
            />
          );
        }}</Shown>
      </Panel>
      <p class="soft">{t("Mark two plans to compare them side by side.")} {count(marked.length)} / 2</p>
      <details>
        <summary>{t("Upload a plan")}</summary>
        <Drop kind="plans" done={() => setTimeout(() => setVersion(version + 1), 1500)} />
      </details>
    </>
  );
}
