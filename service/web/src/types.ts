// The forms of the service's answers that the page reads.

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

export interface Tier {
  name: string;
  size: number;
  kind: string;
  transport: string;
  bandwidth_bytes_per_s: number;
  latency_s: number;
}

export interface Summary {
  model: string;
  training: boolean;
  target: string;
  optimizer: string;
  dtype: string;
  batch: number;
  devices: number;
  cluster: string;
  chip: string;
  tiers: Tier[];
  mesh: [string, number, number][];
  step_s: number;
  samples_per_s: number | null;
  tokens_per_s_per_device: number | null;
  model_flops_utilisation: number;
  peak_flops: number;
  precision: string;
  degrees: string;
  plan_name: string;
  expected_s: [number, number] | null;
  time_by_cause: { cause: string; time_s: number; hidden_s: number; purposes: Record<string, number> }[];
  overlap: string;
  peak_bytes: number;
  limit_bytes: number | null;
  memory_by_cause: Record<string, number>;
  bound: { bound_s: number; gap: number | null; proof: string; solver: string; truncated: boolean };
  space: {
    dialect: string; meshes: [string, number][][]; nodes: number; candidates: number; largest: number;
    log10_plans: number; left_out: number;
  };
  objective: { cost: string; value: number; bound: number; proof: string } | null;
  pipeline: {
    schedule: string; chunks: number; micro_batches: number; micro_batch: number; global_batch: number;
    stages: {
      start: number; end: number; forward_s: number; backward_s: number; once_s: number;
      peak_memory_bytes: number; in_flight: number;
    }[];
  } | null;
  baselines: {
    name: string; fits: boolean; step_time_s: number | null; peak_memory_bytes: number | null; reason: string;
  }[];
  heaviest: {
    label: string; where: string; example: string; count: number; time_s: number; compute_s: number;
    communication_s: number; held_bytes: number; layouts: string;
  }[];
  recomputed: { what: string; count: number }[];
  notes: string[];
  operators: number;
  model_operators: number;
  parameters: number;
  elements: number;
  request: Record<string, unknown>;
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

export interface TensorFacts {
  name: string; dims: string[]; dtype: string; role: string; layout: string | null; maker: string | null;
}

export interface OperatorView {
  name: string; kind: string; scope: string; attributes: Record<string, string>; inputs: TensorFacts[]; outputs: TensorFacts[]; parts: string[];
}

export interface TableView {
  operators: {
    name: string[]; label: number[]; kind: number[]; scope: string[]; inputs: number[]; outputs: number[];
    split: number[]; forward_s: number[]; backward_s: number[]; recompute_s: number[]; communication_s: number[];
    time_s: number[]; held_bytes: number[]; recomputed: boolean[]; stage: number[]; words: string[];
  };
  parameters: {
    name: string[]; dims: number[][]; dtype: number[]; bytes: number[]; held_bytes: number[]; rest: number[];
    used: number[]; reader: string[]; communication_s: number[]; update_s: number[]; words: string[];
  };
}

export interface TimelineView {
  step_s: number;
  estimate_s: number;
  streams: { stream: number; name: string; device: string; copies: number }[];
  tasks: {
    start_s: number[]; end_s: number[]; stream: number[]; label: number[]; cause: number[]; kind: number[];
    tier: number[]; words: string[]; left_out: number;
  };
  computing: Record<string, number>;
  communication: {
    kind: string; tier: string; cause: string; total_s: number; exposed_s: number; hidden_s: number;
  }[];
  exposed_s: number;
  waiting_s: number;
  bubble: { total_s: number; ideal_s: number; imbalance_s: number; recomputation_s: number; communication_s: number } | null;
  devices: { name: string; copies: number; computing_s: number; exposed_s: number; waiting_s: number }[];
}

/** Levels by cause while operators run. */
export interface Levels {
  peak_bytes: number;
  causes: Record<string, number[]>;
  points: number[];
  operators: string[];
  backward_from: number;
  peak_at: number;
  holders: { name: string; cause: string; bytes: number }[];
}

export interface MemoryView extends Levels {
  limit_bytes: number | null;
  by_cause: Record<string, number>;
  stages: number[];
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

export interface ClusterView {
  name: string;
  devices: number;
  tiers: (Tier & { sent_bytes: number; busy: number; time_s: number; hidden_s: number })[];
  picture: Picture | null;
}

export interface MeshView {
  axes: { name: string; size: number; tier: string }[];
  ranks: number[];
  left_out: number;
  stages: number;
  groups: {
    axes: string[]; short: string; tier: string; size: number; time_s: number; hidden_s: number; count: number; bytes: number;
    kinds: Record<string, number>;
  }[];
}

export interface Step {
  step_s: number; estimate_s: number; expected_s: [number, number] | null; simulated_s: number; computing_s: number; exposed_s: number; hidden_s: number; waiting_s: number;
  peak_bytes: number; limit_bytes: number | null; fits: boolean; devices: number; batch: number;
  samples_per_s: number; samples_per_device_s: number;
}

export interface WhatIfView {
  before: Step;
  after: Step;
  tiers: { name: string; bandwidth_bytes_per_s: number; size: number }[];
}

/** Values that a what-if of the plan can take. */
export interface SizesView {
  devices: number[];
  batch: number[];
}

export interface Amount {
  name: string;
  first: number;
  second: number;
}

export interface Change {
  name: string; count: number; compute_s: number; first: string; second: string;
}

export interface ComparisonView {
  facts: { name: string; first: string; second: string }[];
  step_time_s: Amount;
  time_by_cause: Amount[];
  peak_memory_bytes: Amount;
  memory_by_cause: Amount[];
  operators: Change[];
  operators_left_out: number;
  parameters: Change[];
  only_first: number;
  only_second: number;
  shared: number;
  changed: string[];
  /** Operators of both plans. */
  common: number;
  /** Of different models operators are not compared. */
  same_model: boolean;
  models: [string, string];
}

export interface CostPart {
  cause: string; purpose: string; tensor: string; neighbour: string; time_s: number; hidden_s: number;
}

export interface Candidate {
  cuts: string; inputs: string[]; outputs: string[]; is_chosen: boolean; local_s: number; parts: CostPart[];
  fixed_delta_s: number;
  // Only where everything else was chosen anew.
  delta_s?: number | null; memory_bytes?: number; also_changed?: string[];
  reasons?: { kind: string; name: string; text: string; share_s: number | null; decisive: boolean }[];
}

export interface WhyView {
  name: string; kind: string; label: string; scope: string; step_time_s: number; chosen: Candidate;
  rivals: Candidate[];
  neighbours: {
    name: string; kind: string; tensor: string; layout: string; time_s: number; costs_s: number[]; wants: string;
    least_s: number;
  }[];
  memory: MemoryStatus | null;
  candidates: number;
  glance: boolean;
  place?: { stage: number; stages: number; micro_batches: number; work_s: number } | null;
}

export interface MemoryStatus {
  limit_bytes: number; peak_bytes: number; is_binding: boolean; price_s_per_gib: number;
}

export interface ExplanationView {
  step_time_s: number;
  operators: {
    name: string; label: string; example: string; count: number; compute_s: number; communication_s: number;
    cuts: string;
  }[];
  memory: MemoryStatus;
  holders: { cause: string; nbytes: number; largest: string; largest_bytes: number }[];
  rivals: { name: string; delta_s: number | null; delta_by_cause: Record<string, number>; reason: string }[];
  /** What holds a plan with stages back. */
  limits: string[];
  links: { tier: string; factor: number; same_plan_s: number; best_s: number; plan_changes: boolean }[];
}
