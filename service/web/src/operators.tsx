// Tables of all operators and parameters, with search.
import { useMemo } from "preact/hooks";
import { useGet, view } from "./api";
import { bytes, seconds } from "./format";
import { t } from "./i18n";
import { link, setQuery, useRoute } from "./router";
import type { TableView } from "./types";
import { Panel, Segments, Shown, Table, useSettled } from "./ui";
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
            ? <Operators id={props.id} table={tables.operators} wanted={wanted} chosen={chosen} />
            : <Parameters table={tables.parameters} wanted={wanted} />}</Shown>
        </Panel>
        {chosen && <div class="side"><Why id={props.id} op={chosen} small={props.small} close={() => setQuery({ op: undefined })} /></div>}
      </div>
    </>
  );
}

function matching(texts: string[], wanted: string): boolean {
  return wanted === "" || texts.some((text) => text.toLowerCase().includes(wanted));
}

function Operators(props: { id: string; table: TableView["operators"]; wanted: string; chosen: string }) {
  const { table, wanted } = props;
  const { words } = table;
  const rows = useMemo(() => table.name.map((_, i) => i).filter((i) => matching(
    [table.name[i]!, table.scope[i]!, words[table.label[i]!]!, words[table.inputs[i]!]!, words[table.outputs[i]!]!], wanted,
  )), [table, wanted]);
  return (
    <Table<number>
      label={t("operators")} rows={rows} id={(i) => table.name[i]!} order="-time" most={150}
      open={(i) => setQuery({ op: table.name[i]! })} isOn={(i) => table.name[i] === props.chosen}
      columns={[
        { key: "name", title: t("operator"), name: true, sort: (i) => table.name[i]!, show: (i) => (
          <><a href={link(["plans", props.id, "graph"], { op: table.name[i]!, level: "operators" })}>{table.name[i]}</a>
            <div class="soft">{table.scope[i]}</div></>
        ) },
        { key: "kind", title: t("kind"), sort: (i) => words[table.label[i]!]!, show: (i) => words[table.label[i]!] },
        { key: "time", title: t("time"), right: true, sort: (i) => table.time_s[i]!, show: (i) => seconds(table.time_s[i]) },
        { key: "forward", title: t("forward"), right: true, sort: (i) => table.forward_s[i]!, show: (i) => seconds(table.forward_s[i]) },
        { key: "backward", title: t("backward"), right: true, sort: (i) => table.backward_s[i]!, show: (i) => seconds(table.backward_s[i]) },
        { key: "again", title: t("again"), right: true, sort: (i) => table.recompute_s[i]!, show: (i) => seconds(table.recompute_s[i]) },
        { key: "moved", title: t("communication"), right: true, sort: (i) => table.communication_s[i]!, show: (i) => seconds(table.communication_s[i]) },
        { key: "held", title: t("held"), right: true, sort: (i) => table.held_bytes[i]!, show: (i) => bytes(table.held_bytes[i]) },
        { key: "layouts", title: t("layouts of operands → results"), name: true,
          show: (i) => `${words[table.inputs[i]!]} → ${words[table.outputs[i]!]}` },
      ]}
    />
  );
}

function Parameters(props: { table: TableView["parameters"]; wanted: string }) {
  const { table, wanted } = props;
  const { words } = table;
  const rows = useMemo(() => table.name.map((_, i) => i).filter((i) => matching(
    [table.name[i]!, words[table.rest[i]!]!, words[table.used[i]!]!], wanted,
  )), [table, wanted]);
  return (
    <Table<number>
      label={t("parameters")} rows={rows} id={(i) => table.name[i]!} order="-bytes" most={150}
      columns={[
        { key: "name", title: t("parameter"), name: true, sort: (i) => table.name[i]!, show: (i) => table.name[i] },
        { key: "dims", title: t("dims"), name: true, show: (i) => table.dims[i]!.join(" × ") || "1" },
        { key: "dtype", title: t("type"), show: (i) => words[table.dtype[i]!] },
        { key: "bytes", title: t("size"), right: true, sort: (i) => table.bytes[i]!, show: (i) => bytes(table.bytes[i]) },
        { key: "held", title: t("on a device"), right: true, sort: (i) => table.held_bytes[i]!, show: (i) => bytes(table.held_bytes[i]) },
        { key: "rest", title: t("layout at rest"), name: true, show: (i) => words[table.rest[i]!] },
        { key: "used", title: t("as used"), name: true, show: (i) => words[table.used[i]!] },
        { key: "moved", title: t("communication"), right: true, sort: (i) => table.communication_s[i]!, show: (i) => seconds(table.communication_s[i]) },
        { key: "update", title: t("update"), right: true, sort: (i) => table.update_s[i]!, show: (i) => seconds(table.update_s[i]) },
      ]}
    />
  );
}
