// A new search: a model, a machine, and few questions with sensible answers.
import { useState } from "preact/hooks";
import { post, useGet } from "./api";
import { useOptions, type Declared } from "./options";
import type { Machines } from "./clusters";
import { t } from "./i18n";
import { count, short } from "./format";
import { titleOf } from "./lists";
import { Drop, openSizes } from "./models";
import { go, useRoute } from "./router";
import type { Item, Job } from "./types";
import { Choice, Failure, Field, Panel } from "./ui";

export interface Form {
  model: string;
  modelName: string;
  /** Options as text by their names; what is empty is the service's to choose. */
  options: Record<string, string>;
}

/** What the fields are called, where that is not the name of the option. */
const TITLES: Record<string, () => string> = {
  phase: () => t("phase"), target: () => t("target"), optimizer: () => t("optimizer"), dtype: () => t("element type"),
  memory: () => t("memory of a device"), bind: () => t("dynamic sizes"), solver: () => t("solver"), tp: () => t("tensor parallel"),
  dp: () => t("data parallel"), devices: () => t("devices"), batch: () => t("batch"),
  pipeline: () => t("pipeline stages"),
};
const HINTS: Record<string, () => string> = {
  target: () => t("what applies the plan"), memory: () => t("such as 60GiB; empty takes the chip's"), bind: () => "batch=32, seq=4096",
  devices: () => t("of the job, over all servers"), batch: () => t("samples of one step; empty keeps the model's"),
  pipeline: () => t("promising, needed, auto, off, or so many"),
};
const WORDS: Record<string, () => string> = { train: () => t("training"), infer: () => t("inference") };
const MAIN = ["phase", "target", "optimizer", "dtype"];
const MORE = ["memory", "bind", "solver", "tp", "dp", "pipeline"];

export function startOf(query: URLSearchParams): Form {
  const { model = "", name, sizes: _, ...options } = Object.fromEntries(query);
  return { model, modelName: name ?? model, options: { devices: "16", batch: "64", ...options } };
}

/** The values that are given, as a request has them. */
export function optionsOf(form: Form, declared: Declared): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(form.options)) {
    const option = declared[name];
    if (!option || !text) continue;
    found[name] = option.form === "integer" ? Number(text) : option.form === "array" ? text.split(",").map((each) => each.trim()) : text;
  }
  return found;
}

/** A field of an option, by what is declared of it. */
export function OptionField(props: { name: string; form: Form; declared: Declared; change: (part: Partial<Form>) => void }) {
  const { name, form, declared, change } = props;
  const { form: kind, choices, usual } = declared[name]!;
  const value = form.options[name] ?? usual;
  const set = (text: string) => change({ options: { ...form.options, [name]: text } });
  const empty: [string, string][] = usual ? [] : [["", t("the model's")]];
  return (
    <Field title={(TITLES[name] ?? (() => name))()} hint={HINTS[name]?.()}>
      {choices.length > 0
        ? <Choice value={value} options={[...empty, ...choices.map((each): [string, string] => [each, (WORDS[each] ?? (() => each))()])]} change={set} />
        : kind === "integer"
          ? <input type="number" min="1" required={name === "devices"} value={value} onInput={(e) => set(e.currentTarget.value)} />
          : <input type="text" value={value} onInput={(e) => set(e.currentTarget.value)} />}
    </Field>
  );
}

export function ModelPicker(props: { form: Form; change: (part: Partial<Form>) => void }) {
  const { form, change } = props;
  const models = useGet<{ uploaded: Item[]; published: string[] }>("/v1/models", form.model.startsWith("m_") ? 1 : 0);
  const { published, uploaded: all } = models.data ?? { uploaded: [], published: [] };
  const uploaded = all.filter((model) => model.state !== "refused");
  const held = all.find((model) => model.id === form.model);
  const known = [...uploaded.map((m) => m.id), ...published].includes(form.model);
  return (
    <>
      <Drop kind="models" done={(model) => change({ model: model.id, modelName: model.name })} failed={() => change({ model: "", modelName: "" })} />
      <p />
      <Field title={t("or a model that is there already")}>
        <select value={form.model} onChange={(event) => {
          const option = event.currentTarget.selectedOptions[0]!;
          change({ model: option.value, modelName: option.textContent ?? "" });
        }}>
          <option value="">–</option>
          {form.model && !known && <option value={form.model}>{form.modelName || form.model}</option>}
          {uploaded.map((model) => <option key={model.id} value={model.id}>{titleOf(model)}</option>)}
          {published.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </Field>
      {form.model && <p class="good" role="status">{t("Model")}: <b>{form.modelName}</b></p>}
      {held && <Holds item={held} />}
    </>
  );
}

/** What an upload holds, before it is searched for. */
function Holds(props: { item: Item }) {
  const { item } = props;
  const kinds = Object.entries((item.kinds as Record<string, number> | undefined) ?? {}).slice(0, 6);
  const open = openSizes(item);
  if (!item.nodes) return null;
  return (
    <p class="soft">{Number(item.parameter_elements) > 0 && <><b>{short(Number(item.parameter_elements))}</b> {t("parameters")} · </>}{count(Number(item.nodes))} {t("operators")}{kinds.length > 0 && `: ${kinds.map(([kind, many]) => `${many} ${kind}`).join(", ")}`}
      {open && <> · {t("dynamic sizes")}: <code>{open}</code></>}</p>
  );
}

export function MachineFields(props: { form: Form; declared: Declared; change: (part: Partial<Form>) => void }) {
  const clusters = useGet<Machines>("/v1/clusters");
  const { form, declared, change } = props;
  const cluster = form.options.cluster ?? declared.cluster!.usual;
  const bundled = (clusters.data?.bundled ?? []).map((name): [string, string] => [name, name]);
  const uploaded = (clusters.data?.uploaded ?? []).map((item): [string, string] => [item.id, item.name]);
  const known = [...bundled, ...uploaded];
  const names = known.some(([name]) => name === cluster) ? known : [[cluster, cluster] as [string, string], ...known];
  return (
    <>
      <Field title={t("cluster")}>
        <Choice value={cluster} options={names} change={(chosen) => change({ options: { ...form.options, cluster: chosen } })} />
      </Field>
      {["devices", "batch"].map((name) => <OptionField key={name} name={name} {...props} />)}
    </>
  );
}

export function Search() {
  const { query } = useRoute();
  const [form, setForm] = useState<Form>(() => startOf(query));
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const change = (part: Partial<Form>) => setForm((old) => ({ ...old, ...part }));
  const { data: declared, error: unread } = useOptions();
  if (!declared) return unread ? <Failure error={unread} /> : <p role="status">{t("Loading")} …</p>;
  const fields = (names: string[]) => names.map((name) => <OptionField key={name} name={name} form={form} declared={declared} change={change} />);
  const begin = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const job = await post<Job>("/v1/searches", { model: form.model, options: optionsOf(form, declared) });
      go(["jobs", job.job]);
    } catch (found) {
      setError(found as Error);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={begin}>
      <div class="head"><h1 class="grow">{t("New search")}</h1></div>
      {error && <Failure error={error} />}
      <div class="grid">
        <Panel width="w5" title={t("Model")}><ModelPicker form={form} change={change} /></Panel>
        <Panel width="w7" title={t("Machine and job")}>
          <div class="fields">
            <MachineFields form={form} declared={declared} change={change} />
            {fields(MAIN)}
          </div>
          <details>
            <summary>{t("More")}</summary>
            <div class="fields">
              {fields(MORE)}
            </div>
          </details>
          <p />
          <div class="row">
            <button class="primary" type="submit" disabled={!form.model || busy}>{busy ? `${t("Starting")} …` : t("Search")}</button>
            {!form.model && <span class="soft">{t("Choose a model first.")}</span>}
          </div>
        </Panel>
      </div>
    </form>
  );
}
