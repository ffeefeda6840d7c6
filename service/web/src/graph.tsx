// The operator graph: placed by the server, drawn here.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { draw, type Drawn } from "./drawing";
import { get, useGet, view } from "./api";
import { bytes, percent, seconds } from "./format";
import { t } from "./i18n";
import { Parts } from "./parts";
import { Ramp } from "./picture";
import { parse, setQuery, useRoute } from "./router";
import { series, shade, useTheme } from "./theme";
import type { GraphView, OperatorView, TableView } from "./types";
import { Pairs, Panel, Segments, Shown, useKeys } from "./ui";
import { Why } from "./why";

export type Colouring = "layout" | "time" | "memory";

export function GraphTab(props: { id: string; small: boolean }) {
  const { query } = useRoute();
  const level = query.get("level") ?? "folded";
  const colouring = (query.get("colour") ?? "layout") as Colouring;
  const chosen = query.get("op") ?? "";
  const opened = level === "folded" ? query.getAll("open") : [];
  const asked = new URLSearchParams([["level", level], ...opened.map((each) => ["open", each])]);
  const found = useGet<GraphView>(`${view(props.id, "graph")}?${asked}`);
  const close = () => setQuery({ op: undefined });
  return (
    <>
      <div class="row" style={{ marginBottom: "8px" }}>
        <Segments
          label={t("Detail")} value={level} change={(value) => setQuery({ level: value })}
          options={[["folded", t("blocks folded")], ["operators", t("all operators")], ["parts", t("all parts")]]}
        />
        <Segments
          label={t("Colour")} value={colouring} change={(value) => setQuery({ colour: value })}
          options={[["layout", t("layout")], ["time", t("time")], ["memory", t("memory")]]}
        />
        {found.data && <Find id={props.id} graph={found.data} />}
        {opened.map((name) => (
          <button key={name} class="plain" onClick={() => setModules(opened.filter((each) => each !== name))} title={t("Close")}><code>{name}</code> ✕</button>
        ))}
      </div>
      <Shown of={found}>{(graph) => (
        <div class={chosen ? "split" : ""}>
          <div>
            <Drawing graph={graph} colouring={colouring} chosen={chosen} />
            <Legend graph={graph} colouring={colouring} />
          </div>
          {chosen && (
            <div class="side">
              <Facts graph={graph} chosen={chosen} />
              <p />
              <Why id={props.id} op={operatorOf(graph, chosen)} small={props.small} close={close} />
              <p />
              <Tensors id={props.id} op={operatorOf(graph, chosen)} />
            </div>
          )}
        </div>
      )}</Shown>
    </>
  );
}

/** The operator of the plan that a node is, or is a part of. */
function operatorOf(graph: GraphView, name: string): string {
  const at = graph.nodes.name.indexOf(name);
  return at < 0 ? name : graph.nodes.operator[at]!;
}

/** Shows the inside of modules, these and no others. */
function setModules(names: string[]): void {
  const { path, query } = parse(location.hash);
  query.delete("open");
  for (const name of names) query.append("open", name);
  location.hash = `#/${path.map(encodeURIComponent).join("/")}?${query}`;
}

/** Finds a node, or an operator inside what is folded. */
function Find(props: { id: string; graph: GraphView }) {
  const { nodes } = props.graph;
  const [text, setText] = useState("");
  const [none, setNone] = useState("");
  const find = async (event: Event) => {
    event.preventDefault();
    const wanted = text.trim().toLowerCase();
    if (!wanted) return;
    setNone("");
    const at = nodes.name.findIndex((name, i) => [name, nodes.labels[nodes.label[i]!]!].some((each) => each.toLowerCase().includes(wanted)));
    if (at >= 0) return setQuery({ op: nodes.name[at] });
    const { operators } = await get<TableView>(view(props.id, "operators"));
    const [names, ...others] = operators.columns.slice(0, 3).map(([, , words]) => words.map((word) => operators.words[word]!));
    const hit = names!.findIndex((name, i) => [name, ...others.map((each) => each[i]!)].some((each) => each.toLowerCase().includes(wanted)));
    if (hit >= 0) setQuery({ op: names![hit], level: "operators", open: undefined });
    else setNone(text.trim());
  };
  return (
    <form onSubmit={(event) => void find(event)} class="row">
      <input type="search" placeholder={t("Find an operator")} aria-label={t("Find an operator")} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <span class="warn" role="status">{none && `${t("No operator has this in its name:")} ${none}`}</span>
    </form>
  );
}

/** Attributes of an operator, and what it reads and writes. */
function Tensors(props: { id: string; op: string }) {
  const { data } = useGet<OperatorView>(view(props.id, `operator/${encodeURIComponent(props.op)}`));
  if (!data) return null;
  const attributes = Object.entries(data.attributes);
  return (
    <Panel title={t("Tensors and attributes")}>
      <Parts of={data.report} fold={1} />
      {attributes.length > 0 && <Pairs rows={attributes} />}
    </Panel>
  );
}

export function layoutRanks(graph: GraphView): Map<number, number> {
  const counts = new Map<number, number>();
  graph.nodes.layout.forEach((layout, i) => counts.set(layout, (counts.get(layout) ?? 0) + graph.nodes.count[i]!));
  const ordered = [...counts.keys()].sort((a, b) => counts.get(b)! - counts.get(a)!);
  return new Map(ordered.map((layout, rank) => [layout, Math.min(rank, 8)]));
}

export function nodeColours(graph: GraphView, colouring: Colouring): string[] {
  const { nodes } = graph;
  if (colouring === "layout") {
    const ranks = layoutRanks(graph);
    return nodes.layout.map((layout) => series(ranks.get(layout)!));
  }
  const values = colouring === "time" ? nodes.time_s : nodes.held_bytes;
  const most = Math.max(...values, 1e-300);
  return values.map((value) => shade(value / most));
}

function Legend(props: { graph: GraphView; colouring: Colouring }) {
  const { graph, colouring } = props;
  useTheme();
  const { nodes } = graph;
  if (colouring !== "layout") {
    const values = colouring === "time" ? nodes.time_s : nodes.held_bytes;
    const most = Math.max(...values);
    return <p class="legend">0 <Ramp /> {colouring === "time" ? seconds(most) : bytes(most)}
      <span>{t(colouring === "time" ? "computation and communication of one step" : "results and parameters that a device holds")}</span></p>;
  }
  const ranks = [...layoutRanks(graph)].slice(0, 8);
  const more = nodes.layouts.length - ranks.length;
  return (
    <p class="legend">
      {ranks.map(([layout, rank]) => <span key={layout}><i class="swatch" style={{ background: series(rank) }} /><code>{nodes.layouts[layout]}</code></span>)}
      {more > 0 && <span><i class="swatch" style={{ background: series(8) }} />{more} {t("others")}</span>}
      <span>{graph.count} {t("nodes")} · {graph.edges.length} {t("edges")}{graph.nodes.group.some(Boolean) && ` · ${t("a click opens a module")}`}</span>
    </p>
  );
}

function Facts(props: { graph: GraphView; chosen: string }) {
  const { nodes } = props.graph;
  const at = nodes.name.indexOf(props.chosen);
  if (at < 0) return null;
  const total = nodes.time_s.reduce((sum, each) => sum + each, 0);
  return (
    <Panel title={nodes.labels[nodes.label[at]!]!}>
      <p class="mono">{props.chosen}</p>
      <p>{nodes.count[at]! > 1 && <><b>{nodes.count[at]} ×</b> · </>}{t("time")} <b>{seconds(nodes.time_s[at])}</b> ({percent(nodes.time_s[at]!, total)}) · {t("held")} <b>{bytes(nodes.held_bytes[at])}</b></p>
      <p class="mono">{nodes.layouts[nodes.layout[at]!]}</p>
    </Panel>
  );
}

/** A module opens, an operator says what it is. */
function choose(graph: GraphView, name: string): void {
  const group = graph.nodes.group[graph.nodes.name.indexOf(name)];
  if (group) setModules([...parse(location.hash).query.getAll("open"), group]);
  else setQuery({ op: name });
}

function Drawing(props: { graph: GraphView; colouring: Colouring; chosen: string }) {
  const { graph, colouring, chosen } = props;
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<Drawn | undefined>(undefined);
  const now = useTheme();
  const colours = useMemo(() => nodeColours(graph, colouring), [graph, colouring, now]);
  useEffect(() => {
    drawn.current = draw(place.current!, graph, colours, (name) => choose(graph, name));
    drawn.current.choose(chosen);
    return () => {
      drawn.current?.close();
      drawn.current = undefined;
    };
  }, [graph]);
  useEffect(() => drawn.current?.recolour(colours), [colours]);
  useEffect(() => drawn.current?.choose(chosen), [chosen]);
  useKeys((event) => {
    const steps: Record<string, "up" | "down" | "left" | "right"> = {
      ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right",
    };
    if (steps[event.key]) {
      event.preventDefault();
      const next = drawn.current?.neighbour(chosen, steps[event.key]!);
      if (next) setQuery({ op: next });
    }
    if (event.key === "Enter" && graph.nodes.group[graph.nodes.name.indexOf(chosen)]) {
      choose(graph, chosen);
    }
    if (event.key === "+" || event.key === "=") drawn.current?.zoom(1 / 1.5);
    if (event.key === "-") drawn.current?.zoom(1.5);
    if (event.key === "0") drawn.current?.zoom(0);
    if (event.key === "Escape") setQuery({ op: undefined });
  });
  return (
    <div class="canvas">
      <div ref={place} class="drawn" role="application" tabIndex={0} aria-label={`${t("Operator graph")}: ${graph.count} ${t("nodes")}. ${t("Arrow keys move, plus and minus zoom.")}`} />
    </div>
  );
}
