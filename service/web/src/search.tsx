// A new search: a model, a machine, and few questions with sensible answers.
import { useState } from "preact/hooks";
import { post, useGet } from "./api";
import type { Machines } from "./clusters";
import { t } from "./i18n";
import { Drop } from "./models";
import { go, useRoute } from "./router";
import type { Item, Job } from "./types";
import { Failure, Field, Panel } from "./ui";

export interface Form {
  model: string;
  modelName: string;
  cluster: string;
  devices: string;
  batch: string;
  memory: string;
  dtype: string;
  phase: string;
  optimizer: string;
  target: string;
  solver: string;
  pipeline: boolean;
  bind: string;
}

const OPTIMIZERS = ["adamw", "adam", "sgd", "momentum", "adagrad", "lamb", "adafactor", "muon", "none"];

const USUAL: Form = {
  model: "", modelName: "", cluster: "atlas-800t-a2", devices: "16", batch: "64", memory: "", dtype: "", phase: "train",
  optimizer: "adamw", target: "mindspore", solver: "portfolio", pipeline: false, bind: "",
};

export function startOf(query: URLSearchParams): Form {
  const given = Object.fromEntries([...query].filter(([key]) => key in USUAL && key !== "pipeline"));
  return { ...USUAL, ...given, pipeline: query.get("pipeline") === "true", modelName: query.get("name") ?? query.get("model") ?? "" };
}

/** Options as the command line names them; what is left empty is the service's to choose. */
export function optionsOf(form: Form): Record<string, unknown> {
  const options: Record<string, unknown> = {
    cluster: form.cluster, devices: Number(form.devices), phase: form.phase, target: form.target, solver: form.solver,
  };
  if (form.batch) options[form.pipeline ? "global_batch" : "batch"] = Number(form.batch);
  if (form.phase === "train") options.optimizer = form.optimizer;
  for (const key of ["memory", "dtype"] as const) if (form[key]) options[key] = form[key];
  if (form.bind) options.bind = form.bind.split(",").map((each) => each.trim());
  return options;
}

export function Choice(props: { value: string; options: [string, string][]; change: (value: string) => void }) {
  return (
    <select value={props.value} onChange={(event) => props.change(event.currentTarget.value)}>
      {props.options.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
    </select>
  );
}

export function ModelPicker(props: { form: Form; change: (part: Partial<Form>) => void }) {
  const models = useGet<{ uploaded: Item[]; published: string[] }>("/v1/models");
  const { uploaded, published } = models.data ?? { uploaded: [], published: [] };
  const { form, change } = props;
  const known = [...uploaded.map((m) => m.id), ...published].includes(form.model);
  return (
    <>
      <Drop kind="models" done={(model) => change({ model: model.id, modelName: model.name })} />
      <p />
      <Field title={t("or a model that is there already")}>
        <select value={form.model} onChange={(event) => {
          const option = event.currentTarget.selectedOptions[0]!;
          change({ model: option.value, modelName: option.textContent ?? "" });
        }}>
          <option value="">–</option>
          {form.model && !known && <option value={form.model}>{form.modelName || form.model}</option>}
          {uploaded.map((model) => <option key={model.id} value={model.id}>{model.name}</option>)}
          {published.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </Field>
      {form.model && <p class="good" role="status">{t("Model")}: <b>{form.modelName}</b></p>}
    </>
  );
}

export function MachineFields(props: { form: Form; change: (part: Partial<Form>) => void }) {
  const clusters = useGet<Machines>("/v1/clusters");
  const { form, change } = props;
  const bundled = (clusters.data?.bundled ?? []).map((name): [string, string] => [name, name]);
  const uploaded = (clusters.data?.uploaded ?? []).map((item): [string, string] => [item.id, item.name]);
  const known = [...bundled, ...uploaded];
  const names = known.some(([name]) => name === form.cluster) ? known : [[form.cluster, form.cluster] as [string, string], ...known];
  return (
    <>
      <Field title={t("cluster")}>
        <Choice value={form.cluster} options={names} change={(cluster) => change({ cluster })} />
      </Field>
      <Field title={t("devices")} hint={t("of the job, over all servers")}>
        <input type="number" min="1" required value={form.devices} onInput={(e) => change({ devices: e.currentTarget.value })} />
      </Field>
      <Field title={t("batch")} hint={t("samples of one step; empty keeps the model's")}>
        <input type="number" min="1" value={form.batch} onInput={(e) => change({ batch: e.currentTarget.value })} />
      </Field>
    </>
  );
}

export function Search() {
  const { query } = useRoute();
  const [form, setForm] = useState<Form>(() => startOf(query));
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const change = (part: Partial<Form>) => setForm((old) => ({ ...old, ...part }));
  const begin = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const job = await post<Job>("/v1/searches", { model: form.model, options: optionsOf(form) });
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
            <MachineFields form={form} change={change} />
            <Field title={t("phase")}>
              <Choice value={form.phase} options={[["train", t("training")], ["infer", t("inference")]]} change={(phase) => change({ phase })} />
            </Field>
            <Field title={t("target")} hint={t("what applies the plan")}>
              <Choice value={form.target} options={["mindspore", "jax", "torch", "generic"].map((x) => [x, x])} change={(target) => change({ target })} />
            </Field>
            <Field title={t("optimizer")}>
              <Choice value={form.optimizer} options={OPTIMIZERS.map((x) => [x, x])} change={(optimizer) => change({ optimizer })} />
            </Field>
            <Field title={t("element type")}>
              <Choice value={form.dtype} options={[["", t("the model's")], ["bf16", "bf16"], ["fp16", "fp16"], ["fp32", "fp32"]]} change={(dtype) => change({ dtype })} />
            </Field>
          </div>
          <details>
            <summary>{t("More")}</summary>
            <div class="fields">
              <Field title={t("memory of a device")} hint={t("such as 60GiB; empty takes the chip's")}>
                <input type="text" value={form.memory} onInput={(e) => change({ memory: e.currentTarget.value })} />
              </Field>
              <Field title={t("dynamic sizes")} hint="batch=32, seq=4096">
                <input type="text" value={form.bind} onInput={(e) => change({ bind: e.currentTarget.value })} />
              </Field>
              <Field title={t("solver")}>
                <Choice
                  value={form.solver} change={(solver) => change({ solver })}
                  options={["portfolio", "dynamic_programming", "recursive_bisection", "ilp", "local_search", "lagrangian"].map((x) => [x, x])}
                />
              </Field>
              <label class="row"><input type="checkbox" checked={form.pipeline} onChange={(e) => change({ pipeline: e.currentTarget.checked })} />
                {t("may cut the batch into micro-batches and pipeline stages")}</label>
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
