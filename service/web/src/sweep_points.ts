// The points of a sweep, and what can be measured of each.
import { count, energy, percent, seconds } from "./format";
import { t } from "./i18n";

export type Point = Record<string, number | string | null>;

/** The answer of a sweep, as `planner whatif --json` has it. */
export interface Swept {
  model: string;
  axes: Record<string, (number | string)[]>;
  points: Point[];
  best: number | null;
  pareto: number[];
  searches: number;
  scaling: { at: Record<string, number | string>; points: { devices: number; rate: number; speedup: number; efficiency: number }[] }[];
  changes: { axis: string; before: number | string; after: number | string; place: Record<string, number | string>; plans: string[] }[];
  deadline?: { tokens: number; days: number; point: number | null; takes_days: number; needed_devices: number | null };
}

export interface Measure {
  title: string;
  of: (point: Point) => number | null;
  format: (value: number) => string;
  /** Whether more of it is better. */
  more?: boolean;
}

const MILLION = 1e6;
const ORDER = ["cluster", "devices", "batch", "sequence", "bandwidth", "latency", "memory", "compute"];

/** The axes of a sweep in the order in which people name them; open sizes of the model stand last. */
export function axesOf(swept: Swept): string[] {
  const place = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return Object.keys(swept.axes).sort((a, b) => place(a) - place(b));
}

export function isPlanned(point: Point): boolean {
  return point.status === "ok" && typeof point.step_s === "number";
}

function value(point: Point, name: string): number | null {
  const found = point[name];
  return typeof found === "number" ? found : null;
}

/** Whether work is counted in tokens: else in samples. */
function unitOf(points: Point[]): "tokens" | "samples" {
  return points.some((point) => value(point, "tokens_per_s")) ? "tokens" : "samples";
}

/** What is measured of the points, by name; what no point has is left out. */
export function measures(points: Point[]): Record<string, Measure> {
  const unit = unitOf(points);
  const perMillion = (point: Point, name: string) => {
    const [of, speed, step_s] = [value(point, name), value(point, `${unit}_per_s`), value(point, "step_s")];
    return of === null || !speed || !step_s ? null : (of / (speed * step_s)) * MILLION;
  };
  const money = (amount: number) => `${count(amount)} ${points.find((point) => point.currency)?.currency ?? ""}`;
  const all: Record<string, Measure> = {
    step: { title: t("step"), of: (p) => value(p, "step_s"), format: seconds },
    speed: { title: t(unit === "tokens" ? "tokens per second" : "samples per second"), of: (p) => value(p, `${unit}_per_s`), format: count, more: true },
    mfu: { title: "MFU", of: (p) => value(p, "utilisation"), format: percent, more: true },
    memory: { title: t("peak memory"), of: (p) => value(p, "peak_gib"), format: (gib) => `${Number(gib.toPrecision(4))} GiB` },
    devices: { title: t("devices"), of: (p) => value(p, "devices"), format: count },
    hour: { title: t("price of an hour"), of: (p) => (value(p, "price_per_step") === null ? null : (value(p, "price_per_step")! * 3600) / value(p, "step_s")!), format: money },
    price: { title: t(unit === "tokens" ? "price of a million tokens" : "price of a million samples"), of: (p) => perMillion(p, "price_per_step"), format: money },
    energy: { title: t(unit === "tokens" ? "energy of a million tokens" : "energy of a million samples"), of: (p) => perMillion(p, "joules_per_step"), format: energy },
  };
  return Object.fromEntries(Object.entries(all).filter(([, each]) => points.some((point) => each.of(point))));
}

/** A point by what varies. */
export function placeOf(point: Point, axes: string[]): string {
  return axes.map((name) => `${t(name)} ${point[name] ?? "–"}`).join(", ");
}

/** The best planned point by a measure. */
export function bestBy(points: Point[], measure: Measure): Point | undefined {
  const worth = (point: Point) => (measure.of(point) ?? Infinity) * (measure.more ? -1 : 1);
  const known = points.filter((point) => isPlanned(point) && measure.of(point) !== null);
  return known.reduce<Point | undefined>((best, each) => (best === undefined || worth(each) < worth(best) ? each : best), undefined);
}

/** All points as comma-separated values. */
export function csvOf(points: Point[]): string {
  const names = Object.keys(points[0] ?? {});
  const cell = (of: number | string | null | undefined) => (/[",\n]/.test(String(of)) ? `"${String(of).replaceAll('"', '""')}"` : String(of ?? ""));
  return [names, ...points.map((point) => names.map((name) => point[name]))].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
