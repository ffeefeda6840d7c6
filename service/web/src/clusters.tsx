// Machines that the service knows, and how each is wired.
import { useState } from "preact/hooks";
import { useGet } from "./api";
import { t } from "./i18n";
import { Drop } from "./models";
import { Drawing } from "./picture";
import { link } from "./router";
import type { Item, Picture } from "./types";
import { Panel, Shown } from "./ui";

export interface Machines {
  uploaded: Item[];
  bundled: string[];
}

export function Clusters(props: { name: string | undefined }) {
  const [version, setVersion] = useState(0);
  const found = useGet<Machines>("/v1/clusters", version);
  return (
    <>
      <div class="head"><h1 class="grow">{t("Clusters")}</h1></div>
      <Shown of={found}>{(answer) => {
        const shown = props.name ?? answer.bundled[0];
        return (
          <div class="grid">
            <Panel width="w3" title={t("Machines")}>
              <table><tbody>{answer.bundled.map((name) => (
                <tr key={name} class={name === shown ? "on" : ""}><td><a href={link(["clusters", name])}>{name}</a></td></tr>
              ))}
              {answer.uploaded.map((item) => (
                <tr key={item.id}><td><a href={link(["new"], { cluster: item.id })}>{item.name}</a></td></tr>
              ))}</tbody></table>
              <p />
              <Drop kind="clusters" done={() => setVersion(version + 1)} />
            </Panel>
            {shown && <Machine key={shown} name={shown} />}
          </div>
        );
      }}</Shown>
    </>
  );
}

function Machine(props: { name: string }) {
  const found = useGet<Picture>(`/v1/clusters/${encodeURIComponent(props.name)}/picture`);
  return (
    <Panel
      width="w9" title={props.name}
      extra={<a class="button" href={link(["new"], { cluster: props.name })}>{t("Plan for this machine")}</a>}
    >
      <Shown of={found}>{(picture) => <Drawing picture={picture} />}</Shown>
    </Panel>
  );
}
