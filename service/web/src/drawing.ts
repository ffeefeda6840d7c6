// The graph as sigma wants it.
import Graph from "graphology";
import Sigma from "sigma";
import { EdgeArrowProgram, EdgeLineProgram, drawDiscNodeLabel } from "sigma/rendering";
import { colour } from "./theme";
import type { GraphView } from "./types";

export interface Drawn {
  choose(name: string): void;
  recolour(colours: string[]): void;
  neighbour(name: string, step: "up" | "down" | "left" | "right"): string | undefined;
  zoom(factor: number): void;
  close(): void;
}

const FEW = 400;
/** Shapes are written on edges where the picture is at least so close. */
const CLOSE = 0.35;

export function draw(place: HTMLElement, view: GraphView, colours: string[], open: (name: string) => void): Drawn {
  const graph = build(view, colours);
  const few = view.count <= FEW;
  let chosen = "";
  let near = new Set<string>();
  let close = false;
  const sigma = new Sigma(graph, place, {
    allowInvalidContainer: true,
    autoRescale: true,
    defaultDrawNodeHover: drawDiscNodeLabel,
    defaultEdgeType: few ? "arrow" : "line",
    edgeProgramClasses: { arrow: EdgeArrowProgram, line: EdgeLineProgram },
    itemSizesReference: "positions",
    labelColor: { attribute: "labelColour", color: colour("text") },
    labelDensity: few ? 4 : 0.6,
    renderEdgeLabels: few,
    edgeLabelColor: { color: colour("soft") },
    edgeLabelFont: "system-ui, sans-serif",
    edgeLabelSize: 10,
    labelFont: "system-ui, sans-serif",
    labelRenderedSizeThreshold: few ? 3 : 9,
    labelSize: 11,
    maxCameraRatio: 2,
    minCameraRatio: 0.004,
    stagePadding: few ? Math.min(90, place.clientWidth / 9) : 24,
    zIndex: true,
    zoomToSizeRatioFunction: (ratio) => ratio,
    nodeReducer: (name, data) => {
      if (name === chosen) return { ...data, size: data.size * 1.35, forceLabel: true, zIndex: 2, color: colour("c4") };
      return chosen && near.has(name) ? { ...data, forceLabel: true, zIndex: 1 } : data;
    },
    edgeReducer: (edge, data) => {
      const isNear = chosen !== "" && graph.hasNode(chosen) && graph.hasExtremity(edge, chosen);
      if (isNear) return { ...data, color: colour("c4"), zIndex: 1, label: data.shape, forceLabel: true };
      return { ...data, color: colour("strong-line"), label: close ? data.shape : "" };
    },
  });
  sigma.on("clickNode", ({ node }) => {
    if (!node.startsWith(BLOCK)) open(node);
  });
  const camera = sigma.getCamera();
  camera.on("updated", ({ ratio }) => {
    if (few && ratio < CLOSE !== close) {
      close = !close;
      sigma.refresh({ skipIndexation: true });
    }
  });
  return {
    choose(name) {
      chosen = name;
      near = new Set(graph.hasNode(name) ? graph.neighbors(name) : []);
      sigma.refresh();
      if (graph.hasNode(name) && !few) {
        const { x, y } = sigma.getNodeDisplayData(name)!;
        void camera.animate({ x, y, ratio: Math.min(camera.getState().ratio, 0.12) }, { duration: 250 });
      }
    },
    recolour(next) {
      view.nodes.name.forEach((name, i) => graph.setNodeAttribute(name, "color", next[i]));
      sigma.setSetting("labelColor", { attribute: "labelColour", color: colour("text") });
      sigma.refresh();
    },
    neighbour(name, step) {
      if (!graph.hasNode(name)) return view.nodes.name[0];
      if (step === "up") return graph.inNeighbors(name)[0];
      if (step === "down") return graph.outNeighbors(name)[0];
      return view.nodes.name[view.nodes.name.indexOf(name) + (step === "right" ? 1 : -1)];
    },
    zoom(factor) {
      if (factor === 0) void camera.animatedReset({ duration: 200 });
      else void camera.animate({ ratio: camera.getState().ratio * factor }, { duration: 120 });
    },
    close: () => sigma.kill(),
  };
}

const BLOCK = "\0block ";

function build(view: GraphView, colours: string[]): Graph {
  const graph = new Graph({ type: "directed", multi: false, allowSelfLoops: false });
  const { nodes } = view;
  const most = Math.max(...nodes.time_s, 1e-300);
  const least = view.count <= FEW ? 0.17 : 0.32;
  nodes.name.forEach((name, i) => {
    const label = nodes.labels[nodes.label[i]!];
    graph.addNode(name, {
      x: nodes.x[i], y: -nodes.y[i]!, color: colours[i], label, forceLabel: view.count <= FEW && view.level === "folded",
      size: least + 0.17 * Math.sqrt(nodes.time_s[i]! / most),
    });
  });
  view.blocks.forEach((block, i) => {
    if (block.nodes < 2) return;
    graph.addNode(`${BLOCK}${i}`, {
      x: block.left - 0.5, y: -block.top + 0.75, size: 0.001, color: "#0000",
      label: `${block.name}${block.count > 1 ? ` × ${block.count}` : ""}`, forceLabel: view.blocks.length <= 30,
    });
  });
  view.edges.forEach(([source, target], i) => {
    graph.mergeEdge(nodes.name[source], nodes.name[target], { size: 0.03, shape: view.shapes[i] ?? "" });
  });
  return graph;
}
