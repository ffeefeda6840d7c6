// Uploaded and published models.
import { useState } from "preact/hooks";
import { upload, useGet, type Kind } from "./api";
import { bytes, count, short, when } from "./format";
import { t } from "./i18n";
import { Filter, Manage, Marks, matching, tagsOf, titleOf } from "./lists";
import { link } from "./router";
import type { Item } from "./types";
import { Failure, Panel, Shown, Table } from "./ui";

const TAKEN: Record<Kind, string> = {
  models: "a model: .onnx, .onnx.gz, .pt2, .mindir, .mlir, or a config.json; weights are not needed",
  clusters: "a cluster file (.yaml) or a rank table (.json)",
  plans: "a plan.json",
};

/** Where a file is dropped or chosen; it is uploaded at once. */
export function Drop(props: { kind: Kind; done: (item: { id: string; name: string }) => void; failed?: () => void }) {
  const [state, setState] = useState<{ over?: boolean; busy?: string; error?: Error }>({});
  const take = async (file: File | undefined) => {
    if (!file) return;
    setState({ busy: file.name });
    try {
      props.done(await upload(props.kind, file));
      setState({});
    } catch (error) {
      setState({ error: error as Error });
      props.failed?.();
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
            onChange={(event) => { const { files } = event.currentTarget; void take(files?.[0]); }}
          />
        </label>
      </div>
      {state.error && <Failure error={state.error} />}
    </>
  );
}

export function Models() {
  const [version, setVersion] = useState(0);
  const [words, setWords] = useState("");
  const found = useGet<{ uploaded: Item[]; published: string[] }>("/v1/models", version);
  const again = () => setVersion((old) => old + 1);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Models")}</h1></div>
      <div class="grid">
        <Panel width="w4" title={t("Upload")}><Drop kind="models" done={again} failed={again} /></Panel>
        <Panel width="w8" title={t("Uploaded")}>
          <Shown of={found}>{(answer) => {
            const shown = matching(answer.uploaded, words, (row) => [titleOf(row), row.name, ...tagsOf(row)].join(" "));
            return (
              <>
                <Filter value={words} change={setWords} shown={shown.length} all={answer.uploaded.length} />
                <Table<Item>
                  label={t("Uploaded")} rows={shown} id={(row) => row.id}
                  columns={[
                    { key: "name", title: t("name"), name: true, sort: (row) => titleOf(row), show: (row) => (
                      <>{row.state === "refused" ? titleOf(row) : <a href={link(["new"], { model: row.id, name: titleOf(row) })}>{titleOf(row)}</a>} <Marks item={row} /></>
                    ) },
                    { key: "nodes", title: t("operators"), right: true, sort: (row) => Number(row.nodes ?? 0), show: (row) => (row.nodes ? count(Number(row.nodes)) : "") },
                    { key: "parameters", title: t("parameters"), right: true, sort: (row) => Number(row.parameter_elements ?? 0), show: (row) => (row.parameter_elements ? short(Number(row.parameter_elements)) : "") },
                    { key: "open", title: t("dynamic sizes"), show: (row) => openSizes(row) },
                    { key: "bytes", title: t("size"), right: true, sort: (row) => row.bytes ?? 0, show: (row) => bytes(row.bytes) },
                    { key: "made", title: t("uploaded"), sort: (row) => row.created_at ?? 0, show: (row) => when(row.created_at) },
                    { key: "manage", title: "", show: (row) => <Manage kind="models" item={row} changed={again} /> },
                  ]}
                />
              </>
            );
          }}</Shown>
        </Panel>
        <Published names={found.data?.published ?? []} />
      </div>
    </>
  );
}

/** Names of the dimensions that a model leaves open. */
export function openSizes(item: Item): string {
  const open = (item.open_dims as { name?: string }[] | undefined) ?? [];
  return open.map((each) => each.name ?? "").filter(Boolean).join(", ");
}

function Published({ names }: { names: string[] }) {
  if (!names.length) return null;
  return (
    <Panel width="w12" title={t("Published models, by their sizes")}>
      <div class="row">{names.map((name) => <a key={name} class="button" href={link(["new"], { model: name, name })}>{name}</a>)}</div>
    </Panel>
  );
}
