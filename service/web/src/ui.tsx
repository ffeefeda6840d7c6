// Small pieces that every view is made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Loaded } from "./api";
import { said, t } from "./i18n";

export function Panel(props: {
  title?: string; extra?: ComponentChildren; width?: string; children: ComponentChildren;
}) {
  return (
    <section class={`panel ${props.width ?? ""}`}>
      {props.title && <header><h2 class="grow">{props.title}</h2>{props.extra}</header>}
      <div class="body">{props.children}</div>
    </section>
  );
}

/** A number of a plan by its key: wherever a view shows it, it is the same. */
export function Fact(props: { name: string; value: number; format: (value: number) => string }) {
  return <data value={String(props.value)} data-fact={props.name}>{props.format(props.value)}</data>;
}

export function Kpi(props: { value: ComponentChildren; name: ComponentChildren; share?: number; title?: string }) {
  const over = (props.share ?? 0) > 1;
  return (
    <div class="kpi" title={props.title}>
      <b>{props.value}</b>
      <span>{props.name}</span>
      {props.share !== undefined && (
        <div class={over ? "meter over" : "meter"}>
          <i style={{ width: `${100 * Math.min(props.share, 1)}%` }} />
        </div>
      )}
    </div>
  );
}

export function Failure(props: { error: Error }) {
  return <div class="note error" role="alert">{said(props.error.message)}</div>;
}

/** What is shown of an answer: that it is on its way, that it failed, or what it says. */
export function Shown<T>(props: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const { data, error } = props.of;
  if (error) return <Failure error={error} />;
  if (data === undefined) return <p class="busy" role="status">{t("Loading")} …</p>;
  return <>{props.children(data)}</>;
}

export interface Column<Row> {
  key: string;
  title: string;
  right?: boolean;
  name?: boolean;
  sort?: (row: Row) => number | string;
  show: (row: Row) => ComponentChildren;
}

/** A table that is sorted by a click on a head, and shows the first rows of many. */
export function Table<Row>(props: {
  columns: Column<Row>[]; rows: Row[]; id: (row: Row) => string; order?: string; most?: number;
  open?: (row: Row) => void; isOn?: (row: Row) => boolean; isMarked?: (row: Row) => boolean; label: string;
}) {
  const [order, setOrder] = useState(props.order ?? "");
  const [most, setMost] = useState(props.most ?? 100);
  const down = order.startsWith("-");
  const by = props.columns.find((column) => column.key === order.replace("-", ""))?.sort;
  const rows = by ? [...props.rows].sort((a, b) => compare(by(a), by(b)) * (down ? -1 : 1)) : props.rows;
  const head = (column: Column<Row>) => {
    if (!column.sort) return column.title;
    const isThis = order.replace("-", "") === column.key;
    const mark = isThis ? (down ? " ↓" : " ↑") : "";
    const next = isThis && down ? column.key : `-${column.key}`;
    return <button onClick={() => setOrder(next)}>{column.title}{mark}</button>;
  };
  const sorted = (column: Column<Row>) =>
    order.replace("-", "") === column.key ? (down ? "descending" : "ascending") : undefined;
  return (
    <div class="scroll sticky" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.key} scope="col" class={column.right ? "right" : ""} aria-sort={sorted(column)}>
                {head(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, most).map((row) => (
            <tr
              key={props.id(row)}
              class={`${props.open ? "link" : ""} ${props.isOn?.(row) ? "on" : ""} ${props.isMarked?.(row) ? "marked" : ""}`}
              onClick={props.open && (() => props.open!(row))}
            >
              {props.columns.map((column) => (
                <td key={column.key} class={`${column.right ? "right" : ""} ${column.name ? "name" : ""}`}>
                  {column.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > most && (
        <p><button onClick={() => setMost(most + 500)}>{t("Show more")} ({rows.length - most})</button></p>
      )}
    </div>
  );
}

function compare(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

export function Segments<T extends string>(props: {
  label: string; value: T; options: [T, string][]; change: (value: T) => void;
}) {
  return (
    <div class="segments" role="group" aria-label={props.label}>
      {props.options.map(([value, title]) => (
        <button key={value} aria-pressed={value === props.value} onClick={() => props.change(value)}>{title}</button>
      ))}
    </div>
  );
}

export function Choice(props: { value: string; options: [string, string][]; change: (value: string) => void; label?: string }) {
  return (
    <select value={props.value} aria-label={props.label} onChange={(event) => props.change(event.currentTarget.value)}>
      {props.options.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
    </select>
  );
}

export function Field(props: { title: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field"><span>{props.title}</span>{props.children}{props.hint && <small>{props.hint}</small>}</label>
  );
}

export function Pairs(props: { rows: [string, ComponentChildren][] }) {
  return <dl class="pairs">{props.rows.map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>;
}

/** Waits until something stops changing. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** Draws a view anew every second for as long as something runs. */
export function useTicks(runs: boolean): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!runs) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000);
    return () => clearInterval(timer);
  }, [runs]);
}

/** Calls a listener on the window for as long as the view is shown; the first of all, where it takes keys of the frame. */
export function useKeys(listen: (event: KeyboardEvent) => void, first = false): void {
  const latest = useRef(listen);
  latest.current = listen;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = /^(input|select|textarea)$/i.test(target.tagName);
      if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) latest.current(event);
    };
    addEventListener("keydown", pressed, first);
    return () => removeEventListener("keydown", pressed, first);
  }, []);
}

