// Files for frameworks, made by the service and saved by the browser.
import { useState } from "preact/hooks";
import { call } from "./api";
import { t } from "./i18n";
import type { Summary } from "./types";
import { Failure, Panel } from "./ui";

const FORMATS: [string, string][] = [
  ["plan", "plan.json: the plan itself, complete"],
  ["mindspore", "MindSpore: the strategy file that load accepts"],
  ["mindspore-apply", "MindSpore: a script that applies the plan to a network"],
  ["mindspore-operators", "MindSpore: strategies of all operators"],
  ["mindspore-groups", "MindSpore: communication groups"],
  ["mindspore-script", "MindSpore: the set-up of the context"],
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
function save(content: Blob, name: string): void {
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

export function Exports(props: { id: string; summary: Summary }) {
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState("");
  const [made, setMade] = useState("");
  const take = async (format: string) => {
    setBusy(format);
    setError(undefined);
    const path = `/v1/plans/${encodeURIComponent(props.id)}${format === "plan" ? "" : `/exports/${format}`}`;
    try {
      const response = await call(path);
      if (response.status === 202) throw new Error(t("It takes longer: the file will be there soon. Try again."));
      const name = nameOf(response, format === "plan" ? "plan.json" : `${props.summary.model}.${format}`);
      save(await response.blob(), name);
      setMade(name);
    } catch (found) {
      setError(found as Error);
    }
    setBusy("");
  };
  return (
    <Panel title={t("Export")}>
      {error && <Failure error={error} />}
      <table>
        <thead><tr><th scope="col">{t("file")}</th><th scope="col">{t("what it is")}</th><th scope="col"><span class="skip">{t("Save")}</span></th></tr></thead>
        <tbody>{FORMATS.map(([format, what]) => (
          <tr key={format}><td class="mono">{format}</td><td>{t(what)}</td>
            <td class="right"><button disabled={busy !== ""} onClick={() => void take(format)} aria-label={`${t("Save")} ${format}`}>
              {busy === format ? `${t("Making")} …` : t("Save")}</button></td></tr>
        ))}</tbody>
      </table>
      <p role="status" class="good">{made && `${t("Saved")}: ${made}`}</p>
    </Panel>
  );
}
