// Parts of the report: tables and lines as the command line and HTML show them. The service has written the cells.
import type { ComponentChildren } from "preact";
import { phrases, said, t } from "./i18n";
import { Fact, Panel } from "./ui";

export interface Sheet { title: string; columns: [heading: string, unit: string][]; rows: string[][]; total: number | null; after: string[] }
export interface Sentences { title: string; lines: string[]; bullet: string }
export type Part = Sheet | Sentences;

interface Cells {
  /** Where a click on the first cell of a row leads. */
  open?: (row: number) => string | undefined;
  /** Key and value of a cell whose number other views have too. */
  fact?: (row: number, heading: string) => [name: string, value: number] | undefined;
}

const TEXTS = ["text", "name", "code"];

/** The limit in the table of memory by cause, whose last row it is. */
export function limitFact(of: Sheet, limit: number | null): Cells["fact"] {
  return (row, heading) => (limit !== null && row === of.rows.length - 1 && heading === "memory" ? ["limit_bytes", limit] : undefined);
}

/** A part in a panel of its own; nothing where it says nothing. */
export function PartPanel(props: { of: Part | undefined; width: string; title?: string; extra?: ComponentChildren; children?: ComponentChildren } & Cells) {
  const { of } = props;
  if (!of || !("rows" in of ? of.rows : of.lines).length) return null;
  return (
    <Panel width={props.width} title={props.title ?? said(of.title)} extra={props.extra}>
      <Body of={of} open={props.open} fact={props.fact} />{props.children}
    </Panel>
  );
}

/** Parts one below the other; those from the number `fold` on open by a click. */
export function Parts(props: { of: Part[]; fold?: number }) {
  const groups: Part[][] = [];
  for (const part of props.of) {
    if (part.title || !groups.length) groups.push([]);
    groups.at(-1)!.push(part);
  }
  const fold = props.fold ?? groups.length;
  return (
    <>{groups.map((group, i) => {
      const title = said(group[0]!.title);
      const body = group.map((part, at) => <Body key={at} of={part} />);
      return i < fold
        ? <div key={i}>{title && <h3>{title}</h3>}{body}</div>
        : <details key={i} open={i === fold}><summary>{title}</summary>{body}</details>;
    })}</>
  );
}

function Body(props: { of: Part } & Cells) {
  const { of } = props;
  if ("rows" in of) return <>{of.rows.length > 0 && <Rows {...props} of={of} />}{of.after.map((line) => <p key={line} class="soft">{said(line)}</p>)}</>;
  if (of.bullet === "- ") return <ul>{of.lines.map((line) => <li key={line}>{said(line)}</li>)}</ul>;
  return <>{of.lines.map((line) => <p key={line} class={line.startsWith(" ") ? "soft inner" : "line"}>{said(line.trim())}</p>)}</>;
}

function Rows(props: { of: Sheet } & Cells) {
  const { columns, rows, total, title } = props.of;
  const share = columns.findIndex(([, unit]) => unit === "%");
  const parts = rows.map((row, i) => (i === total ? 0 : Number(row[share]) || 0));
  const most = Math.max(...parts, 1e-9);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={said(title)}>
      <table>
        <thead><tr>{columns.map(([heading, unit], i) => (
          <>{i === share && <th scope="col" class="bar"><span class="skip">{t("share")}</span></th>}
            <th scope="col" class={TEXTS.includes(unit) ? "" : "right"}>{said(heading)}</th></>
        ))}</tr></thead>
        <tbody>{rows.map((row, i) => (
          <tr key={i} class={i === total ? "total" : ""}>{row.map((cell, at) => {
            const [heading, unit] = columns[at]!;
            return (
              <>{at === share && <td class="bar">{parts[i]! > 0 && <div class="fill" style={{ width: `${(100 * parts[i]!) / most}%` }} />}</td>}
                <td class={!TEXTS.includes(unit) ? "right" : unit === "text" ? "" : "name"}>{shown(cell, unit, at === 0 ? props.open?.(i) : undefined, props.fact?.(i, heading))}</td></>
            );
          })}</tr>
        ))}</tbody>
      </table>
    </div>
  );
}

/** Words have Chinese; names are those of the model. */
function shown(cell: string, unit: string, href: string | undefined, fact: [string, number] | undefined): ComponentChildren {
  const text = unit === "code" ? cell : unit === "name" ? t(cell) : phrases(cell);
  if (fact) return <Fact name={fact[0]} value={fact[1]} format={() => text} />;
  return href ? <a href={href}>{text}</a> : text;
}
