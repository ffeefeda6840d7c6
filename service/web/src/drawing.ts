// The operator graph on one canvas: WebGL without a GPU costs five times as much for each redraw.
import { Camera, follow, type Box } from "./camera";
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
/** Shapes are written on edges where rows are so many pixels apart. */
const CLOSE = 40;
/** So many edges are drawn while a hand moves the picture; more are drawn once it rests. */
const MOST_MOVING = 1500;
const RESTS_MS = 160;
const FONT = "11px system-ui, sans-serif";
const SMALL = "10px system-ui, sans-serif";
/** A letter and a line take so much room; a name without it waits until the picture is closer. */
const [LETTER, LINE] = [6.3, 15];
/** Rows of names that are closer than this run into one another. */
const ROW = 12;
/** Nodes so small are squares. */
const ROUND_PX = 2.2;

/** What the picture is made of, by the numbers of nodes. */
interface Scene {
  x: number[];
  y: number[];
  size: number[];
  label: string[];
  into: number[][];
  out: number[][];
  at: Map<string, number>;
  few: boolean;
  /** Every node has its name on it, as far as it has room. */
  named: boolean;
  /** How far the next node to the right is. */
  room: number[];
}

function sceneOf(view: GraphView): Scene {
  const { nodes } = view;
  const most = Math.max(...nodes.time_s, 1e-300);
  const few = view.count <= FEW;
  const into: number[][] = nodes.name.map(() => []);
  const out: number[][] = nodes.name.map(() => []);
  for (const [source, target] of view.edges) {
    out[source]!.push(target);
    into[target]!.push(source);
  }
  return {
    x: nodes.x, y: nodes.y, into, out, few, named: few && view.level === "folded", room: roomOf(nodes.x, nodes.y),
    size: nodes.time_s.map((time_s) => (few ? 0.17 : 0.32) + 0.17 * Math.sqrt(time_s / most)),
    label: nodes.label.map((label) => nodes.labels[label]!),
    at: new Map(nodes.name.map((name, i) => [name, i])),
  };
}

function roomOf(x: number[], y: number[]): number[] {
  const room = x.map(() => Infinity);
  const ordered = x.map((_, i) => i).sort((a, b) => y[a]! - y[b]! || x[a]! - x[b]!);
  for (let at = 1; at < ordered.length; at += 1) {
    const [left, right] = [ordered[at - 1]!, ordered[at]!];
    if (y[left] === y[right]) room[left] = x[right]! - x[left]!;
  }
  return room;
}

/** The beginning of a name that has room in so many pixels. */
function cut(name: string, pixels: number): string {
  const letters = Math.max(3, Math.floor(pixels / LETTER));
  return name.length <= letters ? name : `${name.slice(0, letters - 1)}…`;
}

function boxOf(scene: Scene): Box {
  const least = (values: number[]) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values: number[]) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  return { left: least(scene.x), right: most(scene.x), top: least(scene.y), bottom: most(scene.y) };
}

export function draw(place: HTMLElement, view: GraphView, colours: string[], open: (name: string) => void): Drawn {
  const scene = sceneOf(view);
  const canvas = document.createElement("canvas");
  place.append(canvas);
  const camera = new Camera(boxOf(scene), (width) => (scene.few ? Math.min(90, width / 9) : 24), scene.named ? ROW : 0);
  const picture = new Picture(canvas.getContext("2d", { alpha: false })!, view, scene, camera, colours);
  const found = (x: number, y: number) => nodeAt(scene, camera, x, y);
  const stop = follow(canvas, camera, {
    changed: () => picture.moved(),
    click: (x, y) => {
      const hit = found(x, y);
      if (hit !== undefined) open(view.nodes.name[hit]!);
    },
    over: (x, y) => {
      const hit = found(x, y);
      canvas.style.cursor = hit === undefined ? "" : "pointer";
      if (hit !== picture.hovered) {
        picture.hovered = hit;
        picture.ask();
      }
    },
  });
  const fit = () => {
    camera.resize(Math.max(1, place.clientWidth), Math.max(1, place.clientHeight));
    canvas.width = camera.width * devicePixelRatio;
    canvas.height = camera.height * devicePixelRatio;
    picture.now();
  };
  fit();
  const resized = new ResizeObserver(fit);
  resized.observe(place);
  return {
    choose(name) {
      picture.chosen = scene.at.get(name);
      if (picture.chosen !== undefined && !scene.few) {
        camera.zoomAt(Math.max(1, 8 / camera.zoom));
        camera.centre(scene.x[picture.chosen]!, scene.y[picture.chosen]!);
      }
      picture.ask();
    },
    recolour: (next) => picture.recolour(next),
    neighbour(name, step) {
      const { name: names } = view.nodes;
      const here = scene.at.get(name);
      if (here === undefined) return names[0];
      const next = { up: scene.into[here]![0], down: scene.out[here]![0], left: here - 1, right: here + 1 }[step];
      return next === undefined ? undefined : names[next];
    },
    zoom(factor) {
      if (factor === 0) camera.reset();
      else camera.zoomAt(1 / factor);
      picture.moved();
    },
    close() {
      stop();
      resized.disconnect();
      picture.close();
      canvas.remove();
    },
  };
}

/** The node under a point of the screen, or close to it. */
function nodeAt(scene: Scene, camera: Camera, x: number, y: number): number | undefined {
  const [own_x, own_y] = camera.at(x, y);
  let [best, least] = [undefined as number | undefined, Infinity];
  for (let i = 0; i < scene.x.length; i += 1) {
    const far = Math.hypot(scene.x[i]! - own_x, scene.y[i]! - own_y);
    if (far < least && far <= Math.max(scene.size[i]!, 5 / camera.scale)) [best, least] = [i, far];
  }
  return best;
}

class Picture {
  chosen: number | undefined;
  hovered: number | undefined;
  private groups = new Map<string, number[]>();
  private frame = 0;
  private rest = 0;
  private moving = false;

  constructor(
    private readonly to: CanvasRenderingContext2D, private readonly view: GraphView, private readonly scene: Scene,
    private readonly camera: Camera, colours: string[],
  ) {
    this.group(colours);
  }

  /** Draws anew before the next frame of the browser. */
  ask(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.now());
  }

  /** The picture moves under a hand. */
  moved(): void {
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.ask();
    }, RESTS_MS);
    this.ask();
  }

  recolour(colours: string[]): void {
    this.group(colours);
    this.ask();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.rest);
  }

  now(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { to, camera } = this;
    to.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    to.fillStyle = colour("panel");
    to.fillRect(0, 0, camera.width, camera.height);
    this.edges();
    this.nodes();
    this.names();
  }

  private group(colours: string[]): void {
    this.groups.clear();
    colours.forEach((each, i) => {
      if (!this.groups.has(each)) this.groups.set(each, []);
      this.groups.get(each)!.push(i);
    });
  }

  private px(i: number): [number, number] {
    return [this.scene.x[i]! * this.camera.scale + this.camera.dx, this.scene.y[i]! * this.camera.scale + this.camera.dy];
  }

  private isSeen(i: number, margin = 20): boolean {
    const [x, y] = this.px(i);
    return x > -margin && y > -margin && x < this.camera.width + margin && y < this.camera.height + margin;
  }

  /** Whether a line between two nodes can cross the window. */
  private crosses([x, y]: [number, number], [to_x, to_y]: [number, number]): boolean {
    const { width, height } = this.camera;
    return Math.max(x, to_x) > 0 && Math.min(x, to_x) < width && Math.max(y, to_y) > 0 && Math.min(y, to_y) < height;
  }

  private edges(): void {
    const { chosen, view, to } = this;
    const isNear = ([source, target]: number[]) => source === chosen || target === chosen;
    if (!this.moving || view.edges.length <= MOST_MOVING) this.lines(view.edges.filter((edge) => !isNear(edge)), colour("strong-line"));
    if (chosen !== undefined) this.lines(view.edges.filter(isNear), colour("c4"));
    if (!this.scene.few) return;
    const close = this.camera.scale >= CLOSE;
    [to.font, to.fillStyle, to.textAlign] = [SMALL, colour("soft"), "center"];
    view.edges.forEach((edge, i) => {
      const [a, b] = edge.map((each) => this.px(each));
      if (view.shapes[i] && (close || isNear(edge)) && this.crosses(a!, b!)) to.fillText(view.shapes[i], (a![0] + b![0]) / 2, (a![1] + b![1]) / 2 - 3);
    });
    to.textAlign = "left";
  }

  private lines(edges: number[][], paint: string): void {
    const { to, scene, camera } = this;
    const heads: [number, number, number][] = [];
    [to.strokeStyle, to.fillStyle, to.lineWidth] = [paint, paint, Math.min(1.5, Math.max(0.5, 0.03 * camera.scale))];
    to.beginPath();
    for (const [source, target] of edges) {
      const [a, b] = [this.px(source!), this.px(target!)];
      if (!this.crosses(a, b)) continue;
      to.moveTo(...a);
      to.lineTo(...b);
      const angle = Math.atan2(b[1] - a[1], b[0] - a[0]);
      const back = scene.size[target!]! * camera.scale;
      if (scene.few) heads.push([b[0] - back * Math.cos(angle), b[1] - back * Math.sin(angle), angle]);
    }
    to.stroke();
    if (heads.length) this.arrows(heads);
  }

  private arrows(heads: [number, number, number][]): void {
    const { to } = this;
    const long = Math.min(9, Math.max(4, 0.14 * this.camera.scale));
    to.beginPath();
    for (const [x, y, angle] of heads) {
      to.moveTo(x, y);
      for (const side of [-0.4, 0.4]) to.lineTo(x - long * Math.cos(angle + side), y - long * Math.sin(angle + side));
    }
    to.fill();
  }

  private nodes(): void {
    for (const [paint, own] of this.groups) this.dots(own, paint, 1);
    if (this.chosen !== undefined) this.dots([this.chosen], colour("c4"), 1.35);
  }

  private dots(own: number[], paint: string, larger: number): void {
    const { to, scene, camera } = this;
    to.fillStyle = paint;
    to.beginPath();
    for (const i of own) {
      const radius = Math.max(0.8, scene.size[i]! * camera.scale * larger);
      if (!this.isSeen(i, radius)) continue;
      const [x, y] = this.px(i);
      if (radius < ROUND_PX) to.rect(x - radius, y - radius, 2 * radius, 2 * radius);
      else {
        to.moveTo(x + radius, y);
        to.arc(x, y, radius, 0, 2 * Math.PI);
      }
    }
    to.fill();
  }

  private names(): void {
    const { to, scene, camera, view } = this;
    const taken = new Map<number, [number, number][]>();
    const isFree = (x: number, y: number, text: string) => {
      const [row, end] = [Math.round(y / LINE), x + LETTER * text.length];
      if ([row - 1, row, row + 1].some((each) => taken.get(each)?.some(([from, to]) => from < end && x < to))) return false;
      taken.set(row, [...(taken.get(row) ?? []), [x, end]]);
      return true;
    };
    [to.font, to.textBaseline] = [FONT, "middle"];
    to.fillStyle = colour("soft");
    for (const block of view.blocks) {
      if (block.nodes < 2 || (view.blocks.length > 30 && (block.bottom - block.top) * camera.scale < 2 * LINE)) continue;
      const [x, y] = [(block.left - 0.5) * camera.scale + camera.dx, (block.top - 0.75) * camera.scale + camera.dy];
      const name = `${block.name}${block.count > 1 ? ` × ${block.count}` : ""}`;
      if (isFree(x, y, name)) to.fillText(name, x, y);
    }
    const near = new Set(this.chosen === undefined ? [] : [this.chosen, ...scene.into[this.chosen]!, ...scene.out[this.chosen]!]);
    if (this.hovered !== undefined) near.add(this.hovered);
    to.fillStyle = colour("text");
    const always = scene.named && camera.scale >= 0.99 * ROW;
    const least = scene.named ? 0 : scene.few ? 3 : 9;
    for (let i = 0; i < scene.label.length; i += 1) {
      const radius = scene.size[i]! * camera.scale;
      if (!this.isSeen(i)) continue;
      const [x, y] = this.px(i);
      const name = near.has(i) || !scene.named ? scene.label[i]! : cut(scene.label[i]!, scene.room[i]! * camera.scale - 2 * radius - 6);
      if (near.has(i) || always || (radius >= least && isFree(x, y, name))) to.fillText(name, x + radius + 3, y);
    }
    to.textBaseline = "alphabetic";
  }
}
