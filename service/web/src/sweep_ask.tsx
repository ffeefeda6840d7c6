// What a sweep asks for: a model, the machines, and the values that each size and factor takes.
import { useState } from "preact/hooks";
import { post, useGet } from "./api";
import type { Machines } from "./clusters";
import { count } from "./format";
import { t } from "./i18n";
import { useOptions, type Declared } from "./options";
import { go, useRoute } from "./router";
import { ModelPicker, OptionField, optionsOf, startOf, type Form } from "./search";
import type { Job } from "./types";
import { Failure, Field, Panel } from "./ui";

interface Wanted {
  clusters: string[];
  /** Values of each axis as text: a list 8,16,32 or a range 8:64:4. */
  axes: Record<string, string>;
  tokens: string;
  days: string;
  prices: string;
}

const SIZES = ["devices", "batch", "sequence"];
const FACTORS = ["bandwidth", "latency", "memory", "compute"];
const OPTIONS = ["phase", "target", "optimizer", "dtype"];
const SAMPLE = "currency: CNY\ndevices:\n  ascend_910b3:\n    hour: {value: 12.5}\n    power: {value: 400}";

/** How many values a text names; nothing where it is none. */
export function valuesIn(text: string): number {
  const range = /^\s*[\d.]+\s*:\s*[\d.]+\s*:\s*(\d+)\s*$/.exec(text);
  return range ? Number(range[1]) : text.split(",").filter((each) => each.trim()).length;
}

/** How many searches a sweep takes at most. */
function pointsOf(wanted: Wanted): number {
  return Object.values(wanted.axes).reduce((all, text) => all * Math.max(1, valuesIn(text)), Math.max(1, wanted.clusters.length));
}

/** The body of a sweep: what all points have in common, what varies, and by which prices. */
export function requestOf(form: Form, declared: Declared, wanted: Wanted): Record<string, unknown> {
  const { cluster: _, devices: __, batch: ___, global_batch: ____, ...options } = optionsOf(form, declared);
  const given = Object.entries(wanted.axes).map(([name, text]): [string, string] => [name, text.replaceAll(/\s/g, "")]).filter(([, text]) => text);
  const vary = given.filter(([name]) => name !== "devices").map(([name, text]) => `${name}=${text}`);
  return {
    model: form.model, options, ...(wanted.prices.trim() && { prices: { text: wanted.prices } }),
    sweep: {
      cluster: wanted.clusters.join(","), vary, ...Object.fromEntries(given.filter(([name]) => name === "devices")),
      ...(wanted.tokens && { tokens: wanted.tokens }), ...(wanted.days && { days: Number(wanted.days) }),
    },
  };
}

export function AskSweep() {
  const { query } = useRoute();
  const [form, setForm] = useState<Form>(() => startOf(query));
  const [wanted, setWanted] = useState<Wanted>(() => ({
    clusters: query.getAll("cluster"), axes: { devices: query.get("devices") ?? "8, 16, 32, 64", batch: query.get("batch") ?? "64" }, tokens: "", days: "", prices: "",
  }));
  const [error, setError] = useState<Error>();
  const change = (part: Partial<Form>) => setForm((old) => ({ ...old, ...part }));
  const want = (part: Partial<Wanted>) => setWanted((old) => ({ ...old, ...part }));
  const { data: declared, error: unread } = useOptions();
  if (!declared) return unread ? <Failure error={unread} /> : <p role="status">{t("Loading")} …</p>;
  const begin = async (event: Event) => {
    event.preventDefault();
    setError(undefined);
    const clusters = wanted.clusters.length ? wanted.clusters : [declared.cluster!.usual];
    try {
      const job = await post<Job>("/v1/sweeps", requestOf(form, declared, { ...wanted, clusters }));
      go(["sweep", job.job]);
    } catch (found) {
      setError(found as Error);
    }
  };
  return (
    <form onSubmit={begin}>
      <div class="head"><h1 class="grow">{t("Sweep")}</h1></div>
      {error && <Failure error={error} />}
      <div class="grid">
        <Panel width="w5" title={t("Model")}><ModelPicker form={form} change={change} /></Panel>
        <Panel width="w7" title={t("What varies")}>
          <Axes wanted={wanted} want={want} usual={declared.cluster!.usual} />
          <details>
            <summary>{t("What all points have in common")}</summary>
            <div class="fields">
              {OPTIONS.map((name) => <OptionField key={name} name={name} form={form} declared={declared} change={change} />)}
            </div>
          </details>
          <Money wanted={wanted} want={want} />
          <p />
          <div class="row">
            <button class="primary" type="submit" disabled={!form.model}>{t("Begin")}</button>
            <span class="soft" role="status">{t("searches at most:")} {count(pointsOf(wanted))}</span>
          </div>
        </Panel>
      </div>
    </form>
  );
}

type Part = { wanted: Wanted; want: (part: Partial<Wanted>) => void };

/** A field for the values of each axis. */
function Axes({ wanted, want, usual }: Part & { usual: string }) {
  const machines = useGet<Machines>("/v1/clusters").data;
  const names: [string, string][] = [...(machines?.bundled ?? []).map((name): [string, string] => [name, name]), ...(machines?.uploaded ?? []).map((item): [string, string] => [item.id, item.name])];
  const chosen = wanted.clusters.length ? wanted.clusters : [usual];
  const field = (name: string, hint: string) => (
    <Field key={name} title={t(name)} hint={hint}>
      <input type="text" value={wanted.axes[name] ?? ""} onInput={(e) => want({ axes: { ...wanted.axes, [name]: e.currentTarget.value } })} />
    </Field>
  );
  return (
    <>
      <div class="fields">
        <Field title={t("clusters")} hint={t("one or more")}>
          <select multiple size={5} onChange={(e) => want({ clusters: [...e.currentTarget.selectedOptions].map((each) => each.value) })}>
            {names.map(([value, title]) => <option key={value} value={value} selected={chosen.includes(value)}>{title}</option>)}
          </select>
        </Field>
        {SIZES.map((name) => field(name, name === "sequence" ? t("empty keeps the model's") : "8, 16, 32 / 8:64:4"))}
        {FACTORS.map((name) => field(name, `${t("factor on the machine")}: 0.5:2:3`))}
      </div>
      <p class="soft">{t("A list such as 8, 16, 32, or a range low:high:count in equal ratios. Each combination is a search.")}</p>
    </>
  );
}

/** What the run costs, and by when it should be done. */
function Money({ wanted, want }: Part) {
  return (
    <details>
      <summary>{t("Money, energy and a deadline")}</summary>
      <div class="fields">
        <Field title={t("tokens of the run")} hint="15e12"><input type="text" value={wanted.tokens} onInput={(e) => want({ tokens: e.currentTarget.value.trim() })} /></Field>
        <Field title={t("days it may take")}><input type="number" min="0.1" step="any" value={wanted.days} onInput={(e) => want({ days: e.currentTarget.value })} /></Field>
      </div>
      <Field title={t("prices of a device and hour, and watts, by chip; empty takes those that are known")}>
        <textarea rows={6} class="wide mono" placeholder={SAMPLE} value={wanted.prices} onInput={(e) => want({ prices: e.currentTarget.value })} />
      </Field>
    </details>
  );
}
