// Titles, headings and lines of the report's tables.
import type { Said } from "./said";

export const SAID_OF_REPORT: Said[] = [
  // A plan
  ["step time, {w}", "单步时间，{1}"], ["uncalibrated", "未校准"], ["90 % of comparable published runs: {}", "可比公开运行的 90 %：{1}"],
  ["throughput", "吞吐量"], ["{} samples/s", "{1} 样本/秒"], ["{} tokens/s", "{1} token/秒"], ["{} tokens/s per device", "每设备 {1} token/秒"], ["MFU {} % of {}", "MFU {1} %（峰值 {2}）"],
  ["peak memory, {} % of the limit", "峰值内存，占上限的 {1} %"], ["above the proven bound", "高于已证明的下界"],
  ["one training step", "一个训练步"], ["one forward pass", "一次前向计算"], ["batch {}", "批大小 {1}"],
  ["{} x {} ({}), for {}, {} stages of mesh {}", "{1} × {2}（{3}），用于 {4}，{5} 个阶段，网格 {6}"], ["{} x {} ({}), for {}, mesh {}", "{1} × {2}（{3}），用于 {4}，网格 {5}"],
  ["peak", "峰值"], ["limit ({} % of it used)", "上限（已用 {1} %）"], ["in flight", "在途"], ["once a step", "每步一次"],
  ["buffers of {} communicators, charged to the runtime reserve first", "{1} 个通信域的缓冲区，先计入运行时预留"],
  ["buffers of {} communicator, charged to the runtime reserve first", "{1} 个通信域的缓冲区，先计入运行时预留"],
  ["Heaviest operators: layouts of operands -> results", "最耗时的算子：操作数 -> 结果的布局"],
  ["Heaviest operators", "最耗时的算子"], ["heaviest operators", "最耗时的算子"], ["Quality", "质量"], ["Time", "时间"],
  ["and {} others in {} groups, {} % of the step", "以及另外 {2} 组中的 {1} 个，占一步的 {3} %"],
  ["and {} others in {} groups", "以及另外 {2} 组中的 {1} 个"], ["and {} others", "以及另外 {1} 个"],
  ["No plan of the space below is faster: proven by {}.", "下述空间中没有更快的方案：由 {1} 证明。"],
  ["No plan of the space below takes less than {}: this one is at most {} above ({}).", "下述空间中没有方案快于 {1}：本方案至多高出 {2}（{3}）。"],
  ["No bound was found ({}).", "没有找到下界（{1}）。"],
  ["The time limit cut the search short: another machine may answer differently.", "时间上限使搜索提前结束：换一台机器，答案可能不同。"],
  ["Space: dialect {}, {} decisions with {} candidates (at most {} each, {} left out), 10^{} plans; mesh {}.", "空间：方言 {1}，{2} 个决策共 {3} 个候选（每个最多 {4} 个，未考虑 {5} 个），10^{6} 个方案；网格 {7}。"],
  ["Compared with", "与常见方案相比"], ["{} x faster", "快到 {1} 倍"], ["as fast", "同样快"],
  ["{} pipeline stages (PP {}, VPP {}), {} micro-batches of {} ({}); times of one micro-batch", "{1} 个流水线阶段（PP {2}，VPP {3}），{4} 个微批次，每个 {5}（{6}）；时间为一个微批次的"],
  ["{} pipeline stages (PP {}, VPP {}), {} micro-batch of {} ({}); times of one micro-batch", "{1} 个流水线阶段（PP {2}，VPP {3}），{4} 个微批次，大小 {5}（{6}）；时间为一个微批次的"],
  ["{} pipeline stages, {} micro-batches of {} ({}); times of one micro-batch", "{1} 个流水线阶段，{2} 个微批次，每个 {3}（{4}）；时间为一个微批次的"],
  ["{} pipeline stages, {} micro-batch of {} ({}); times of one micro-batch", "{1} 个流水线阶段，{2} 个微批次，大小 {3}（{4}）；时间为一个微批次的"],
  ["{} pipeline stage, {} micro-batches of {} ({}); times of one micro-batch", "{1} 个流水线阶段，{2} 个微批次，每个 {3}（{4}）；时间为一个微批次的"],
  ["and {} stages between them", "以及它们之间的 {1} 个阶段"],
  ["stage transfer over {w}: {} tensors, each at most {} per step and device, forward and backward", "阶段间传输（{1}）：{2} 个张量，每步每设备前向加反向各最多 {3}"],
  ["stage transfer over {w}: {} tensor, each at most {} per step and device, forward and backward", "阶段间传输（{1}）：{2} 个张量，每步每设备前向加反向最多 {3}"],
  ["full recomputation of {} blocks in the backward pass", "反向时完整重算 {1} 个块"], ["full recomputation of {} block in the backward pass", "反向时完整重算 {1} 个块"],
  ["stages {} share {}: the reduction of its gradient takes {}, once a step", "阶段 {1} 共享 {2}：其梯度规约每步一次，用时 {3}"],
  ["ZeRO: of {} parameters {}", "ZeRO：{1} 个参数中 {2}"],
  ["optimizer state of {} parameters is kept in host memory: at most {} for each device", "{1} 个参数的优化器状态存放在主机内存：每设备最多 {2}"],
  ["forward {}", "前向 {1}"], ["activation gradient {}", "激活梯度 {1}"], ["parameter gather {}", "参数收集 {1}"],
  ["gradient sync {}", "梯度同步 {1}"], ["inside operators {}", "算子内部 {1}"],

  // All operators and parameters
  ["Operators", "算子"], ["Parameters", "参数"], ["place", "位置"], ["bytes", "字节"],

  // Links and groups
  ["transport", "传输方式"], ["bytes of a device", "单设备字节数"], ["how often", "次数"], ["busy %", "繁忙 %"], ["all", "全部轴"],

  // One operator
  ["at {}", "位于 {1}"], ["computes {} in a step, {} % of all operators", "一步中计算 {1}，占全部算子的 {2} %"],
  ["{}: dimension {}", "{1}：维度 {2}"], ["{}: leaves the result terms of a sum", "{1}：结果成为部分和"], ["{}: repeats the operator", "{1}：重复该算子"],
  ["at rest {}", "静止时 {1}"], ["kept as {w} {}", "作为{1}保存 {2}"], ["kept as {w}", "作为{1}保存"], ["read by {}", "由 {1} 读取"], ["made by {}", "由 {1} 产生"],
  ["Operands", "操作数"], ["Results", "结果"], ["Collectives", "集合通信"], ["collective", "集合通信"], ["No collectives", "没有集合通信"],

  // Simulation and what-if
  ["Communication of an average device", "平均设备的通信"], ["reached at", "到达于"], ["% of the step", "占一步的 %"], ["recomputation", "重计算"],
  ["limit: it does not fit", "上限：放不下"], ["most of {} others: {w}", "其余 {1} 个中最多的：{2}"], ["stage {}", "阶段 {1}"],
  ["It fits into memory: {} of {} ({} %)", "内存放得下：{2} 中的 {1}（{3} %）"], ["It fits into memory", "内存放得下"],
  ["It does not fit into memory: {} of {} ({} %)", "内存放不下：需要 {1}，上限 {2}（{3} %）"], ["It does not fit into memory", "内存放不下"],
  ["hidden communication", "隐藏的通信"], ["samples per second and device", "每秒每设备样本数"], ["same", "相同"],

  // Why
  ["{} candidates; a step takes {}", "{1} 个候选；一步用时 {2}"],
  ["in stage {} of {}; times are those of its devices in a step of {} micro-batches, {} of work", "在第 {1} 阶段（共 {2}）；时间是其设备在 {3} 个微批次的一步中的时间，工作 {4}"],
  ["Not memory-bound: {} of {} per device, and the fastest plan fits.", "内存不是瓶颈：每设备 {2} 中的 {1}，最快的方案放得下。"],
  ["Memory-bound: {} of {} per device; a GiB more would save {} a step.", "内存是瓶颈：每设备 {2} 中的 {1}；每多一 GiB，每步节省 {3}。"],
  ["Candidates, the chosen one first", "候选，选中的在前"], ["chosen", "选中"], ["here", "此处"], ["rest as planned", "其余不变"], ["rest replanned", "其余重新规划"],
  ["chosen: {} -> {}", "选中：{1} -> {2}"], ["tensor or purpose", "张量或用途"],
  ["{}: forward", "{1}：前向"], ["{}: activation gradient", "{1}：激活梯度"], ["{}: parameter gather", "{1}：参数收集"], ["{}: gradient sync", "{1}：梯度同步"],
  ["{}: inside operators", "{1}：算子内部"], ["{}: stage transfer", "{1}：阶段间传输"],
  ["not chosen: {w}", "未选中：{1}"], ["changes with it: {}", "也会改变：{1}"], ["its memory, {}, costs others {}", "其内存 {1} 使其他部分多花 {2}"],
  ["Redistribution to the neighbours as planned, by candidate", "按候选，到邻居（保持原方案）的重分布"], ["tensor, neighbour", "张量、邻居"], ["cheapest layout", "最便宜的布局"], ["cannot", "不能"],

  // Explanation of a plan
  ["A step takes {}; nothing in the space is faster", "一步用时 {1}；空间中没有更快的"],
  ["A step takes {}; nothing in the space takes less than {}", "一步用时 {1}；空间中没有快于 {2} 的"],
  ["A step takes {}; priced anew as it stands, without a bound", "一步用时 {1}；按原样重新计价，没有下界"],
  ["Stages, in a step", "一步中的各阶段"], ["idle", "空闲"], ["and {} more; --json has all", "以及另外 {1} 个；--json 有全部"], ["cuts", "切分"],
  ["Memory at the peak", "峰值时的内存"], ["Closest rivals", "最接近的对手"], ["Links twice as fast", "链路加快一倍"], ["the best plan there", "那里的最优方案"], ["{} (another plan)", "{1}（换方案）"],

  // Two plans
  ["A takes {}, B {}: {} is {} x faster", "A 用时 {1}，B 用时 {2}：{3} 快到 {4} 倍"], ["A takes {}, B {}", "A 用时 {1}，B 用时 {2}"], ["Both take {}", "两者都用时 {1}"],
  ["The plans are equal: {} operators and parameters, time, memory.", "两个方案相同：{1} 个算子与参数、时间、内存。"],
  ["Request and result", "请求与结果"], ["Operators with other layouts", "布局不同的算子"], ["Parameters with other layouts", "布局不同的参数"], ["pattern", "模式"],
  ["{} operators and parameters of {} are not in {}.", "{2} 的 {1} 个算子与参数不在 {3} 中。"],
  ["degrees", "并行度"], ["graph", "计算图"], ["pipeline stages", "流水线阶段"], ["schedule", "调度"], ["operators of the stages", "各阶段的算子"], ["proof", "证明"],
];
