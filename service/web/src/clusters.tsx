// Machines that the service knows, and how each is wired.
import { useEffect, useState } from "preact/hooks";
import { useGet } from "./api";
import { t } from "./i18n";
import { Manage, Marks, titleOf } from "./lists";
import { Drop } from "./models";
import { Drawing } from "./picture";
import { go, link } from "./router";
import type { Item, Picture } from "./types";
import { Failure, Panel, Shown } from "./ui";

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
                <tr key={item.id} class={item.id === shown ? "on" : ""}><td><a href={link(["clusters", item.id])}>{titleOf(item)}</a> <Marks item={item} />
                  <Manage kind="clusters" item={item} changed={() => setVersion((old) => old + 1)} /></td></tr>
              ))}</tbody></table>
              <p />
              <Drop kind="clusters" done={(item) => { setVersion((old) => old + 1); go(["clusters", item.id]); }} failed={() => setVersion((old) => old + 1)} />
            </Panel>
            {shown && !answer.bundled.includes(shown) ? <Uploaded key={shown} id={shown} done={() => setVersion((old) => old + 1)} /> : shown && <Machine key={shown} name={shown} title={shown} />}
          </div>
        );
      }}</Shown>
    </>
  );
}

/** A machine of a file: drawn once a job has read it. */
function Uploaded(props: { id: string; done: () => void }) {
  const [version, setVersion] = useState(0);
  const { data, error } = useGet<Item>(`/v1/clusters/${encodeURIComponent(props.id)}`, version);
  const isRead = data !== undefined && data.state !== "unread";
  useEffect(() => {
    if (isRead) return props.done();
    const timer = setInterval(() => setVersion((old) => old + 1), 500);
    return () => clearInterval(timer);
  }, [isRead]);
  if (error) return <Panel width="w9"><Failure error={error} /></Panel>;
  if (!data || !isRead) return <Panel width="w9"><p class="busy" role="status">{t("Loading")} …</p></Panel>;
  if (data.state === "refused") return <Panel width="w9" title={data.name}><Failure error={new Error(String(data.message ?? ""))} /></Panel>;
  if (data.form === "rank table") {
    return (
      <Panel width="w9" title={data.name} extra={<PlanFor name={data.id} devices={Number(data.devices)} />}>
        <p>{t("A rank table names devices and no links, so there is nothing to draw.")} {t("devices")}: <b>{String(data.devices)}</b></p>
      </Panel>
    );
  }
  return <Machine name={data.id} title={data.name} />;
}

function PlanFor(props: { name: string; devices?: number }) {
  const devices = props.devices ? String(props.devices) : undefined;
  return <a class="button" href={link(["new"], { cluster: props.name, devices })}>{t("Plan for this machine")}</a>;
}

function Machine(props: { name: string; title: string }) {
  const found = useGet<Picture>(`/v1/clusters/${encodeURIComponent(props.name)}/picture`);
  return (
    <Panel width="w9" title={props.title} extra={<PlanFor name={props.name} />}>
      <Shown of={found}>{(picture) => <Drawing picture={picture} />}</Shown>
    </Panel>
  );
}
