// Tables of all operators and parameters, with search.
import { useMemo } from "preact/hooks";
import { useGet, view } from "./api";
import { bytes, seconds } from "./format";
import { said, t } from "./i18n";
import { link, setQuery, useRoute } from "./router";
import type { Columnar, TableView } from "./types";
import { Panel, Segments, Shown, Table, useSettled, type Column } from "./ui";
import { Why } from "./why";

export function OperatorsTab(props: { id: string; small: boolean }) {
  const { query } = useRoute();
  const found = useGet<TableView>(view(props.id, "operators"));
  const what = (query.get("show") ?? "operators") as "operators" | "parameters";
  const text = query.get("find") ?? "";
  const wanted = useSettled(text.toLowerCase(), 120);
  const chosen = query.get("op") ?? "";
  return (
    <>
      <div class="row" style={{ marginBottom: "8px" }}>
        <Segments
          label={t("Table")} value={what} change={(value) => setQuery({ show: value })}
          options={[["operators", t("operators")], ["parameters", t("parameters")]]}
        />
        <input
          type="search" aria-label={t("Find by name, kind, place or layout")} placeholder={t("Find by name, kind, place or layout")}
          value={text} size={34} onInput={(event) => setQuery({ find: event.currentTarget.value })}
        />
      </div>
      <div class={chosen ? "split" : ""}>
        <Panel>
          <Shown of={found}>{(tables) => what === "operators"
            ? <Long id={props.id} table={tables.operators} order="-time" wanted={wanted} chosen={chosen} />
            : <Long id={props.id} table={tables.parameters} order="-bytes" wanted={wanted} />}</Shown>
        </Panel>
        {chosen && <div class="side"><Why id={props.id} op={chosen} small={props.small} close={() => setQuery({ op: undefined })} /></div>}
      </div>
    </>
  );
}

const FORMATS: Record<string, (value: number) => string> = { s: seconds, B: bytes };

/** A table of thousands of rows, sorted by a click on a heading; the first column leads to the graph where rows are operators. */
function Long(props: { id: string; table: Columnar; order: string; wanted: string; chosen?: string }) {
  const { table: { title, columns, words }, wanted, chosen } = props;
  const names = columns[0]![2];
  const texts = columns.filter(([, unit]) => !FORMATS[unit]);
  const rows = useMemo(
    () => names.map((_, row) => row).filter((row) => !wanted || texts.some(([, , values]) => words[values[row]!]!.toLowerCase().includes(wanted))),
    [props.table, wanted],
  );
  const nameOf = (row: number) => words[names[row]!]!;
  const column = ([heading, unit, values]: Columnar["columns"][number], at: number): Column<number> => {
    const isNumber = unit in FORMATS;
    const text = (row: number) => (isNumber ? FORMATS[unit]!(values[row]!) : words[values[row]!]!);
    return {
      key: heading, title: said(heading), right: isNumber, name: !isNumber, sort: (row) => (isNumber ? values[row]! : text(row)),
      show: (row) => (at || chosen === undefined ? text(row) : <a href={link(["plans", props.id, "graph"], { op: nameOf(row), level: "operators" })}>{text(row)}</a>),
    };
  };
  return (
    <Table<number>
      label={said(title)} rows={rows} id={nameOf} order={props.order} most={150} columns={columns.map(column)}
      open={chosen === undefined ? undefined : (row) => setQuery({ op: nameOf(row) })} isOn={(row) => nameOf(row) === chosen}
    />
  );
}
