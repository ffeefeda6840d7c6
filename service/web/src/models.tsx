// Uploaded and published models.
import { useState } from "preact/hooks";
import { upload, useGet, type Kind } from "./api";
import { bytes, when } from "./format";
import { t } from "./i18n";
import { go, link } from "./router";
import type { Item } from "./types";
import { Failure, Panel, Shown, Table } from "./ui";

const TAKEN: Record<Kind, string> = {
  models: "a model: .onnx, .onnx.gz, .pt2, .mindir, .mlir, or a config.json; weights are not needed",
  clusters: "a cluster file (.yaml) or a rank table (.json)",
  plans: "a plan.json",
};

/** Where a file is dropped or chosen; it is uploaded at once. */
export function Drop(props: { kind: Kind; done: (item: { id: string; name: string }) => void }) {
  const [state, setState] = useState<{ over?: boolean; busy?: string; error?: Error }>({});
  const take = async (file: File | undefined) => {
    if (!file) return;
    setState({ busy: file.name });
    try {
      props.done(await upload(props.kind, file));
      setState({});
    } catch (error) {
      setState({ error: error as Error });
    }
  };
  return (
    <>
      <div
        class={state.over ? "drop over" : "drop"}
        onDragOver={(event) => { event.preventDefault(); setState({ over: true }); }}
        onDragLeave={() => setState({})}
        onDrop={(event) => { event.preventDefault(); void take(event.dataTransfer?.files[0]); }}
      >
        <p><b>{t("Drop a file here")}</b></p>
        <p class="soft">{t(TAKEN[props.kind])}</p>
        <label class="button">
          {state.busy ? `${t("Uploading")} ${state.busy} …` : t("Choose a file")}
          <input
            type="file" class="skip" aria-label={t("Choose a file")}
            onChange={(event) => void take(event.currentTarget.files?.[0])}
          />
        </label>
      </div>
      {state.error && <Failure error={state.error} />}
    </>
  );
}

export function Models() {
  const [version, setVersion] = useState(0);
  const found = useGet<{ uploaded: Item[]; published: string[] }>("/v1/models", version);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Models")}</h1></div>
      <div class="grid">
        <Panel width="w4" title={t("Upload")}><Drop kind="models" done={() => setVersion(version + 1)} /></Panel>
        <Panel width="w8" title={t("Uploaded")}>
          <Shown of={found}>{(answer) => (
            <Table<Item>
              label={t("Uploaded")} rows={answer.uploaded} id={(row) => row.id}
              open={(row) => go(["new"], { model: row.id, name: row.name })}
              columns={[
                { key: "name", title: t("name"), name: true, sort: (row) => row.name,
                  show: (row) => <a href={link(["new"], { model: row.id, name: row.name })}>{row.name}</a> },
                { key: "state", title: t("state"), show: (row) => t(String(row.state ?? "")) },
                { key: "bytes", title: t("size"), right: true, sort: (row) => row.bytes ?? 0, show: (row) => bytes(row.bytes) },
                { key: "made", title: t("uploaded"), sort: (row) => row.created_at ?? 0, show: (row) => when(row.created_at) },
                { key: "id", title: t("id"), show: (row) => <code>{row.id.slice(0, 14)}</code> },
              ]}
            />
          )}</Shown>
        </Panel>
        <Published names={found.data?.published ?? []} />
      </div>
    </>
  );
}

function Published({ names }: { names: string[] }) {
  if (!names.length) return null;
  return (
    <Panel width="w12" title={t("Published models, by their sizes")}>
      <div class="row">{names.map((name) => <a key={name} class="button" href={link(["new"], { model: name, name })}>{name}</a>)}</div>
    </Panel>
  );
}
