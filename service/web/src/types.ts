// The forms of the service's answers that the page reads.
import type { Part, Sheet } from "./parts";

export interface Item {
  id: string;
  name: string;
  bytes?: number;
  created_at?: number;
  [fact: string]: unknown;
}

export interface Job {
  job: string;
  kind: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  cached: boolean;
  submitted_at?: number;
  started_at?: number | null;
  finished_at?: number | null;
  request?: Record<string, any>;
  /** What the items of the request are called, by their ids. */
  names?: Record<string, string>;
  result?: Record<string, any> | null;
  message?: string | null;
}

export interface Summary {
  model: string;
  target: string;
  batch: number;
  devices: number;
  cluster: string;
  tiers: { name: string; transport: string }[];
  plan_name: string;
  step_time_s: number;
  memory_limit_bytes: number | null;
  /** What the plan is of, a phrase each. */
  about: string[];
  figures: { key: string; value: number | null; text: string; label: string }[];
  /** Where it has stages. */
  pipeline?: object;
  operators: number;
  model_operators: number;
  elements: number;
  /** Of each row of the heaviest operators, one of them. */
  examples: string[];
  /** Its tables by name. */
  report: Record<string, Part>;
}

export interface GraphView {
  level: string;
  count: number;
  nodes: {
    name: string[]; operator: string[]; label: number[]; labels: string[]; layout: number[]; layouts: string[];
    count: number[]; time_s: number[]; held_bytes: number[]; x: number[]; y: number[];
    /** The module whose nodes a node stands for; empty for an operator. */
    group: string[];
  };
  edges: [number, number][];
  /** Of each edge, the dims of a tensor that goes along it; empty where all operators are shown. */
  shapes: string[];
  blocks: { name: string; count: number; nodes: number; left: number; top: number; right: number; bottom: number }[];
}

export interface OperatorView {
  attributes: Record<string, string>;
  report: Part[];
}

/** A table of thousands of rows; cells of a text are numbers of words. */
export interface Columnar {
  title: string;
  columns: [heading: string, unit: string, values: number[]][];
  words: string[];
}

export interface TableView {
  operators: Columnar;
  parameters: Columnar;
}

export interface TimelineView {
  step_time_s: number;
  estimate_s: number;
  exposed_communication_s: number;
  waiting_s: number;
  streams: { stream: number; name: string; device: string; copies: number }[];
  bars: {
    start_s: number[]; end_s: number[]; stream: number[]; label: number[]; cause: number[]; kind: number[];
    tier: number[]; words: string[]; left_out: number;
  };
  report: Part[];
}

/** Levels by cause while operators run. */
export interface Levels {
  peak_bytes: number;
  causes: Record<string, number[]>;
  points: number[];
  operators: string[];
  backward_from: number;
  /** Who holds most at the peak. */
  holders: Sheet;
}

export interface MemoryView extends Levels {
  limit_bytes: number | null;
  report: Record<string, Part>;
  /** One for each part of the machine, where there are stages. */
  parts: (Levels & { part: number; numbers: number[] })[];
  curves: { name: string; time_s: number[]; bytes: number[]; peak_bytes: number }[];
}

export interface Picture {
  title: string;
  /** Of a plan: how many servers are drawn, how many it uses, and the devices of each. */
  servers: { drawn: number; used: number; devices: number } | null;
  extent: [number, number, number, number];
  legend: Record<string, string>;
  dots: { x: number; y: number; label: string; kind: string }[];
  boxes: { x: number; y: number; width: number; height: number; label: string; kind: string }[];
  lines: { points: [number, number][]; kind: string; width: number; faint: boolean; bytes: number | null }[];
}

/** Seconds of a step that the links of a tier hold up. */
export interface TierLoad {
  name: string;
  time_s: number;
}

export interface ClusterView {
  tiers: TierLoad[];
  report: Part;
  picture: Picture | null;
}

export interface MeshView {
  axes: { name: string; size: number; tier: string }[];
  ranks: number[];
  left_out: number;
  stages: number;
  report: Part;
}

/** What the chart of a what-if draws. */
export interface Step {
  step_s: number; computing_s: number; exposed_s: number; waiting_s: number;
}

export interface WhatIfView {
  before: Step;
  after: Step;
  report: Sheet;
}

/** Values that a what-if of the plan can take. */
export interface SizesView {
  devices: number[];
  batch: number[];
}

export interface ComparisonView {
  /** Of different models operators are not compared. */
  same_model: boolean;
  models: [string, string];
  report: Part[];
}

export interface WhyView {
  name: string;
  /** Nothing at a glance. */
  memory: object | null;
  report: Part[];
}

export interface ExplanationView {
  report: Part[];
}
