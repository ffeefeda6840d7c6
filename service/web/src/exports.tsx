// Files for frameworks, made by the service and saved by the browser.
import { useState } from "preact/hooks";
import { call, finished, post, useGet, view } from "./api";
import { said, t } from "./i18n";
import { Drop } from "./models";
import type { Summary } from "./types";
import { Choice, Failure, Field, Panel, Shown } from "./ui";

const FORMATS: [string, string][] = [
  ["plan", "plan.json: the plan itself, complete"],
  ["mindspore", "MindSpore: the strategy file that load accepts"],
  ["mindspore-apply", "MindSpore: a script that applies the plan to a network"],
  ["mindspore-operators", "MindSpore: strategies of all operators"],
  ["mindspore-groups", "MindSpore: communication groups"],
  ["mindspore-script", "MindSpore: the set-up of the context"],
  ["mindspore-inference", "MindSpore: checkpoints for prediction, shards of a dataset"],
  ["mindspore-shard", "MindSpore: calls of shard on cells"],
  ["jax", "JAX: PartitionSpecs"],
  ["torch", "PyTorch: DTensor placements"],
  ["megatron", "Megatron: arguments"],
  ["launch", "scripts that start the job on its servers"],
  ["msjob", "Kubernetes: the job for ms-operator"],
  ["parameter-server", "MindSpore: roles of parameter servers"],
  ["table", "tables of operators and parameters"],
  ["html", "a page that needs no service"],
];

/** Hands bytes to the browser as a file. */
export function save(content: Blob, name: string): void {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

function nameOf(response: Response, usual: string): string {
  const given = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") ?? "");
  return given ? decodeURIComponent(given[1]!) : usual;
}

interface FormatFacts {
  format: string;
  suffixes: string[];
  settings: { name: string; values: string; meaning: string }[];
  needs_model: boolean;
  refusal: string | null;
}

export function Exports(props: { id: string; summary: Summary }) {
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState("");
  const [made, setMade] = useState("");
  const found = useGet<{ formats: FormatFacts[] }>(view(props.id, "exports"));
  const take = async (format: string, ask: () => Promise<Response>, usual: string) => {
    setBusy(format);
    setError(undefined);
    try {
      const response = await ask();
      const name = nameOf(response, usual);
      save(await response.blob(), name);
      setMade(name);
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy("");
  };
  return (
    <Panel title={t("Export")}>
      {error && <Failure error={error} />}
      <Shown of={found}>{({ formats }) => (
        <table class="exports">
          <thead><tr><th scope="col">{t("file")}</th><th scope="col">{t("what it is")}</th><th scope="col"><span class="skip">{t("Save")}</span></th></tr></thead>
          <tbody>{FORMATS.map(([format, what]) => (
            <Row key={format} id={props.id} model={props.summary.model} format={format} what={what} busy={busy} take={take} facts={formats.find((each) => each.format === format)} />
          ))}</tbody>
        </table>
      )}</Shown>
      <p role="status" class="good">{made && `${t("Saved")}: ${made}`}</p>
    </Panel>
  );
}

type Take = (format: string, ask: () => Promise<Response>, usual: string) => Promise<void>;

function Row(props: { id: string; model: string; format: string; what: string; busy: string; take: Take; facts: FormatFacts | undefined }) {
  const { id, model, format, facts, busy } = props;
  const [suffix, setSuffix] = useState("");
  const [settings, setSettings] = useState<Record<string, string>>({});
  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value));
  const lacks = facts?.needs_model && !given.model;
  const ask = async () => {
    if (format === "plan") return call(`/v1/plans/${encodeURIComponent(id)}`);
    const form = suffix || facts?.suffixes[0] || undefined;
    return exported({ plan: id, format, suffix: form || null, settings: textsOf(given, false), files: textsOf(given, true) });
  };
  const isClosed = facts?.refusal && facts.settings.length === 0;
  return (
    <tr>
      <td class="mono">{format}</td>
      <td>
        {t(props.what)}
        {facts?.refusal && <div class="why soft">{said(facts.refusal)}</div>}
        {facts && facts.settings.length > 0 && <Settings facts={facts} values={settings} change={(name, value) => setSettings((old) => ({ ...old, [name]: value }))} />}
      </td>
      <td class="right">
        {facts && facts.suffixes.length > 1 && <><Choice label={`${t("form")} ${format}`} value={suffix || facts.suffixes[0]!} options={facts.suffixes.map((each) => [each, each])} change={setSuffix} />{" "}</>}
        {!isClosed && (
          <button disabled={busy !== "" || lacks} onClick={() => void props.take(format, ask, format === "plan" ? `${model}-plan.json` : `${model}-${format}`)} aria-label={`${t("Save")} ${format}`}>
            {busy === format ? `${t("Making")} …` : t("Save")}</button>
        )}
      </td>
    </tr>
  );
}

/** Settings of an export are texts, or texts of files. */
const FILES = ["hosts", "rank_table"];

function textsOf(given: Record<string, string>, files: boolean): Record<string, string> {
  return Object.fromEntries(Object.entries(given).filter(([name]) => FILES.includes(name) === files));
}

function Settings(props: { facts: FormatFacts; values: Record<string, string>; change: (name: string, value: string) => void }) {
  const { facts, values, change } = props;
  return (
    <details open={facts.needs_model}>
      <summary>{t("Settings")}</summary>
      {facts.needs_model && <Drop kind="models" done={(model) => change("model", model.id)} />}
      <div class="fields">{facts.settings.map(({ name, values: forms, meaning }) => (
        <Field key={name} title={name} hint={`${forms}: ${said(meaning)}`}>
          {FILES.includes(name)
            ? <textarea rows={2} value={values[name] ?? ""} onInput={(event) => change(name, event.currentTarget.value)} />
            : <input type="text" value={values[name] ?? ""} onInput={(event) => change(name, event.currentTarget.value)} />}
        </Field>
      ))}</div>
    </details>
  );
}

/** The file of an export that is asked for; waits until it is made. */
async function exported(body: object): Promise<Response> {
  const { job } = await post<{ job: string }>("/v1/exports", body);
  return call(`/v1/exports/${(await finished(job)).export}`);
}
