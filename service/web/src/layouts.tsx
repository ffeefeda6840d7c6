// Conventional layouts of a model, and recipes of frameworks: priced at once, ranked, written as files.
import { useState } from "preact/hooks";
import { finished, post, upload, useGet } from "./api";
import { bytes, count, percent, seconds } from "./format";
import type { Machines } from "./clusters";
import { save } from "./exports";
import { said, t } from "./i18n";
import { isOver, useJob } from "./jobs";
import { Filter, matching } from "./lists";
import { go, link, useRoute } from "./router";
import { Scatter } from "./scatter";
import type { Item, Job } from "./types";
import { Choice, Failure, Field, Kpi, Panel, Table, type Column } from "./ui";

const FRAMEWORKS = [
  "megatron", "megatron-bridge", "torchtitan", "torchtitan-0.3", "deepspeed", "accelerate", "mindformers", "mindspeed", "maxtext",
];

/** A layout of the list, or the recipe as it is and with a change. */
interface Priced {
  layout: string;
  step_s: number;
  low_s: number | null;
  high_s: number | null;
  tokens_per_s: number | null;
  model_flops_utilisation: number;
  memory_bytes: number;
  change?: string;
}

interface Form {
  model: string;
  name: string;
  cluster: string;
  devices: string;
  batch: string;
  sequence: string;
}

export function Layouts(props: { job: string | undefined }) {
  return props.job ? <Answer key={props.job} id={props.job} /> : <Ask />;
}

function startOf(query: URLSearchParams): Form {
  const asked = (name: string, usual: string) => query.get(name) ?? usual;
  return {
    model: asked("model", "llama3-8b"), name: asked("name", asked("model", "llama3-8b")), cluster: asked("cluster", "dgx-h100"),
    devices: asked("devices", "64"), batch: asked("batch", "256"), sequence: asked("sequence", "4096"),
  };
}

/** The body of a question for layouts. */
function bodyOf(form: Form): Record<string, unknown> {
  const { model, name, cluster } = form;
  const numbers = { devices: Number(form.devices), batch: Number(form.batch), sequence: Number(form.sequence) };
  return { model, name, options: { ...numbers, cluster, top: 50 } };
}

/** Whether a file is the description of a model, not a recipe. */
async function isConfiguration(file: File): Promise<boolean> {
  if (!file.name.endsWith(".json")) return false;
  try {
    const fields = JSON.parse(await file.text());
    return "model_type" in fields || "hidden_size" in fields || "n_embd" in fields;
  } catch {
    return false;
  }
}

function Ask() {
  const { query } = useRoute();
  const [form, setForm] = useState<Form>(() => startOf(query));
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const change = (part: Partial<Form>) => setForm((old) => ({ ...old, ...part }));
  const ask = async (work: () => Promise<Job>) => {
    setBusy(true);
    setError(undefined);
    try {
      go(["layouts", (await work()).job]);
    } catch (found) {
      setError(found as Error);
      setBusy(false);
    }
  };
  const take = (files: File[]) => ask(async () => {
    const [first] = files;
    if (files.length === 1 && await isConfiguration(first!)) {
      const name = first!.name.replace(/[.]json$/, "");
      return post<Job>("/v1/layouts", bodyOf({ ...form, model: (await upload("models", first!)).id, name }));
    }
    const texts = await Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text() })));
    return post<Job>("/v1/recipes", { files: texts, options: { cluster: form.cluster } });
  });
  return (
    <>
      <div class="head"><h1 class="grow">{t("Layouts and recipes")}</h1></div>
      {error && <Failure error={error} />}
      <div class="grid">
        <Panel width="w5" title={t("A recipe, or a config.json")}><Dropped busy={busy} take={take} /></Panel>
        <Panel width="w7" title={t("Machine and job")}>
          <form onSubmit={(event) => { event.preventDefault(); void ask(() => post<Job>("/v1/layouts", bodyOf(form))); }}>
            <Fields form={form} change={change} />
            <p />
            <button class="primary" type="submit" disabled={busy}>{busy ? `${t("Starting")} …` : t("Rank the layouts")}</button>
          </form>
        </Panel>
      </div>
    </>
  );
}

function Fields(props: { form: Form; change: (part: Partial<Form>) => void }) {
  const { form, change } = props;
  const models = useGet<{ uploaded: Item[]; published: string[] }>("/v1/models");
  const machines = useGet<Machines>("/v1/clusters");
  const names = [...new Set([form.model, ...(models.data?.published ?? [])])].map((name): [string, string] => [name, name === form.model ? form.name : name]);
  const clusters = [...new Set([form.cluster, ...(machines.data?.bundled ?? [])])].map((name): [string, string] => [name, name]);
  const number = (name: "devices" | "batch" | "sequence", title: string) => (
    <Field title={title}><input type="number" min="1" required value={form[name]} onInput={(e) => change({ [name]: e.currentTarget.value })} /></Field>
  );
  return (
    <div class="fields">
      <Field title={t("Model")}><Choice value={form.model} options={names} change={(model) => change({ model, name: model })} /></Field>
      <Field title={t("cluster")}><Choice value={form.cluster} options={clusters} change={(cluster) => change({ cluster })} /></Field>
      {number("devices", t("devices"))}{number("batch", t("batch"))}{number("sequence", t("sequence"))}
    </div>
  );
}

/** Where the files of a recipe are dropped or chosen; they are priced at once. */
function Dropped(props: { busy: boolean; take: (files: File[]) => void }) {
  const [over, setOver] = useState(false);
  const give = (files: FileList | null | undefined) => { if (files?.length) props.take([...files]); };
  return (
    <div
      class={over ? "drop over" : "drop"} onDragLeave={() => setOver(false)}
      onDragOver={(event) => { event.preventDefault(); setOver(true); }}
      onDrop={(event) => { event.preventDefault(); setOver(false); give(event.dataTransfer?.files); }}
    >
      <p><b>{t("Drop files here")}</b></p>
      <p class="soft">{t("a script or settings of Megatron-LM, torchtitan, DeepSpeed and others, which are priced and not run; or a config.json, whose layouts are ranked")}</p>
      <label class="button">
        {props.busy ? `${t("Starting")} …` : t("Choose files")}
        <input type="file" multiple class="skip" aria-label={t("Choose files")} onChange={(event) => give(event.currentTarget.files)} />
      </label>
    </div>
  );
}

function Answer(props: { id: string }) {
  const { job, progress, error } = useJob(props.id);
  const result = job?.state === "done" ? job.result : undefined;
  return (
    <>
      <div class="head">
        <h1 class="grow">{t(job?.kind === "recipe" ? "Recipe" : "Layouts")} {result?.model ?? ""}</h1>
        <a class="button" href={link(["layouts"])}>{t("Ask again")}</a>
      </div>
      {error && <Failure error={error} />}
      {job?.message && <div class="note error" role="alert">{said(job.message)}</div>}
      {!isOver(job) && <p class="busy" role="status">{said(progress.lines[progress.lines.length - 1] ?? "") || t("Loading")} …</p>}
      {result && job!.kind === "recipe" && <Recipe found={result} />}
      {result && job!.kind === "layouts" && (result.best ? <Ranked job={job!} found={result} /> : <div class="note error" role="alert">{said(String(result.message))}</div>)}
    </>
  );
}

function priceColumns(title: string, name: (row: Priced) => string): Column<Priced>[] {
  return [
    { key: "layout", title, name: true, sort: name, show: name },
    { key: "step", title: t("step"), right: true, sort: (row) => row.step_s, show: (row) => seconds(row.step_s) },
    { key: "interval", title: t("90 % interval"), right: true, show: (row) => (row.low_s === null ? "–" : `${seconds(row.low_s)} – ${seconds(row.high_s)}`) },
    { key: "tokens", title: t("tokens/s"), right: true, sort: (row) => row.tokens_per_s ?? 0, show: (row) => (row.tokens_per_s ? count(row.tokens_per_s) : "") },
    { key: "mfu", title: "MFU", right: true, sort: (row) => row.model_flops_utilisation, show: (row) => percent(row.model_flops_utilisation) },
    { key: "memory", title: t("memory"), right: true, sort: (row) => row.memory_bytes, show: (row) => bytes(row.memory_bytes) },
  ];
}

function Ranked(props: { job: Job; found: Record<string, any> }) {
  const { job, found } = props;
  const best: Priced[] = found.best;
  const [words, setWords] = useState("");
  const [framework, setFramework] = useState(FRAMEWORKS[0]!);
  const [error, setError] = useState<Error>();
  const shown = matching(best, words, (row) => row.layout);
  const write = async (row: Priced) => {
    setError(undefined);
    try {
      const asked = await post<Job>("/v1/layouts", { ...job.request, recipe: framework, row: best.indexOf(row) + 1 });
      keep((await finished(asked.job)).texts);
    } catch (refused) {
      setError(refused as Error);
    }
  };
  const button: Column<Priced> = { key: "write", title: "", show: (row) => <button onClick={() => void write(row)}>{t("Write the recipe")}</button> };
  return (
    <>
      <p>{count(found.layouts)} {t("layouts on")} {count(found.devices)} × {found.machine}, {count(found.fitting)} {t("fit into")} {bytes(found.limit_bytes)}</p>
      {error && <Failure error={error} />}
      <Panel>
        <Filter value={words} change={setWords} shown={shown.length} all={best.length}>
          <Choice value={framework} label={t("framework")} options={FRAMEWORKS.map((name): [string, string] => [name, name])} change={setFramework} />
        </Filter>
        <Table<Priced> label={t("Layouts")} rows={shown} id={(row) => row.layout} columns={[...priceColumns(t("layout"), (row) => row.layout), button]} />
      </Panel>
      <p />
      <Panel title={t("Step against memory")}>
        <Scatter dots={shown.map((row) => ({ name: row.layout, group: found.model, step_s: row.step_s, peak_bytes: row.memory_bytes }))} />
      </Panel>
    </>
  );
}

function Recipe(props: { found: Record<string, any> }) {
  const { found } = props;
  const own: Priced & { chance: number; limit_bytes: number } = found.own;
  const rows: Priced[] = [
    { ...own, change: t("as it is") }, ...found.changes, ...(found.best ? [{ ...found.best, change: t("the best of all") }] : []),
  ];
  const list = (title: string, lines: string[]) => lines.length > 0 && (
    <Panel width="w6" title={title}><ul>{lines.map((line) => <li key={line}>{said(line)}</li>)}</ul></Panel>
  );
  return (
    <>
      <p>{found.title} ({found.release}) · {count(found.devices)} × {found.machine} · <code>{own.layout}</code></p>
      <div class="kpis">
        <Kpi name={t("step")} value={seconds(own.step_s)} />
        <Kpi name={t("tokens/s")} value={own.tokens_per_s ? count(own.tokens_per_s) : "–"} />
        <Kpi name="MFU" value={percent(own.model_flops_utilisation)} />
        <Kpi name={`${t("peak memory of")} ${bytes(own.limit_bytes)}`} value={bytes(own.memory_bytes)} share={own.memory_bytes / own.limit_bytes} />
        <Kpi name={t("chance that it fits")} value={percent(own.chance)} />
      </div>
      <div class="grid">
        <Panel width="w12" title={t("What would be better")}>
          <Table<Priced> label={t("What would be better")} rows={rows} id={(row) => row.change!} columns={priceColumns(t("change"), (row) => row.change!)} />
        </Panel>
        {list(t("Warnings"), found.warnings)}
        {list(t("Notes"), found.remarks)}
        {found.best && (
          <Panel width="w12" title={t("The files of the best recipe")} extra={<button onClick={() => keep(found.texts)}>{t("Save")}</button>}>
            <pre class="scroll" tabIndex={0} role="region" aria-label={t("The files of the best recipe")}>{found.diff}</pre>
          </Panel>
        )}
      </div>
    </>
  );
}

/** Hands the files of a recipe to the browser. */
function keep(texts: Record<string, string>): void {
  for (const [name, text] of Object.entries(texts)) save(new Blob([text], { type: "text/plain" }), name);
}
