// Lists of what an owner has: found by words, called otherwise, tagged, deleted.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, type Kind } from "./api";
import { said, t } from "./i18n";
import type { Item } from "./types";
import { Failure } from "./ui";

export const AT_ONCE = 100;

/** What an item is called: its owner's word for it, else the name that it came with. */
export function titleOf(item: Item, name = item.name): string {
  return String(item.label || name);
}

export function tagsOf(item: Item): string[] {
  return (item.tags as string[] | undefined) ?? [];
}

/** Tags of an item, and why it was refused. */
export function Marks(props: { item: Item }) {
  const { item } = props;
  return (
    <>
      {tagsOf(item).map((tag) => <span key={tag} class="tag">{tag}</span>)}
      {item.state === "refused" && <> <span class="state failed">{t("refused")}</span><div class="bad why">{said(String(item.message ?? ""))}</div></>}
      {item.state === "unread" && <> <span class="state">{t("unread")}</span></>}
    </>
  );
}

/** Rows that have all words somewhere. */
export function matching<Row>(rows: Row[], words: string, textOf: (row: Row) => string): Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => wanted.every((word) => textOf(row).toLowerCase().includes(word)));
}

export function Filter(props: { value: string; change: (value: string) => void; shown: number; all: number; children?: ComponentChildren }) {
  return (
    <div class="row filter">
      <input type="search" placeholder={t("Filter")} aria-label={t("Filter")} value={props.value} onInput={(event) => props.change(event.currentTarget.value)} />
      {props.children}
      <span class="soft" role="status">{props.shown} / {props.all}</span>
    </div>
  );
}

/** Buttons of an item: rename, tags, delete. */
export function Manage(props: { kind: Kind; item: Item; changed: () => void }) {
  const { kind, item, changed } = props;
  const [error, setError] = useState<Error>();
  const path = `/v1/${kind}/${encodeURIComponent(item.id)}`;
  const act = (init: RequestInit) => void call(path, init).then(changed, setError);
  const patch = (body: object) => act({ method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const rename = () => {
    const label = prompt(t("Name"), titleOf(item));
    if (label !== null) patch({ label: label === item.name ? "" : label.slice(0, AT_ONCE) });
  };
  const tag = () => {
    const text = prompt(t("Tags, with commas between them"), tagsOf(item).join(", "));
    if (text !== null) patch({ tags: text.split(",").map((each) => each.trim().slice(0, 40)).filter(Boolean).slice(0, 10) });
  };
  const remove = () => {
    if (confirm(`${t("Delete")} ${titleOf(item)}?`)) act({ method: "DELETE" });
  };
  return (
    <span class="manage">
      <button class="plain" onClick={rename} aria-label={`${t("Rename")} ${titleOf(item)}`} title={t("Rename")}>✎</button>
      <button class="plain" onClick={tag} aria-label={`${t("Tags")} ${titleOf(item)}`} title={t("Tags")}>#</button>
      <button class="plain" onClick={remove} aria-label={`${t("Delete")} ${titleOf(item)}`} title={t("Delete")}>✕</button>
      {error && <Failure error={error} />}
    </span>
  );
}
