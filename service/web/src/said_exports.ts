// What is refused of an export: why a format cannot say a plan, and how to mend it.
import type { Said } from "./said";

export const SAID_OF_EXPORTS: Said[] = [
  // Any format
  ["a module has one mesh, the plan one for each stage", "一个模块只有一个网格，而方案的每个阶段各有一个"],
  ["plan again with --target {}", "请用 --target {1} 重新规划"],

  // JAX and torch
  ["{} has no shards of unequal size, as {} of {} needs", "{1} 没有大小不等的分片，而 {3} 的 {2} 需要"],
  ["a DeviceMesh needs ascending ranks along each of its dimensions", "DeviceMesh 的每一维上 rank 必须递增"],
  ["DTensor convolves no images that are cut along positions", "DTensor 不能对沿位置切分的图像做卷积"],
  ["search without --cut-positions and such pins, or export for JAX", "请不用 --cut-positions 和这样的固定切分重新搜索，或导出为 JAX"],
  ["export for JAX", "请导出为 JAX"],

  // Megatron
  ["export another format; Megatron needs one layout for all layers", "请导出其他格式；Megatron 要求所有层布局相同"],
  ["the plan is one of inference; these are arguments of training", "方案用于推理，而这些是训练的参数"],
  ["the model has no attention; Megatron trains transformers", "模型没有注意力；Megatron 训练的是 Transformer"],
  ["the batch of the model is not known", "模型的批大小未知"],
  ["most work is done with experts or kernels, not with matrices", "大部分计算由专家或卷积核完成，不是矩阵"],
  ["no operator multiplies by a weight of two dimensions", "没有算子与二维权重相乘"],
  ["most products are repeated along it", "大部分乘法沿它重复计算"],
  ["Megatron nests data, context, tensor from the outside in, the plan has {}", "Megatron 由外到内依次为数据、上下文、张量并行，方案是 {1}"],
  ["{} % of the products' time is split otherwise than the rest: no uniform layout is near", "乘法时间的 {1} % 与其余部分切分不同：没有相近的统一布局"],
  ["a batch of {} does not go into {} parts", "批大小 {1} 不能分成 {2} 份"],

  // MindSpore
  ["the plan is in the dialect {}: MindSpore cannot place its cuts, nor keep its partial sums between operators", "方案使用方言 {1}：MindSpore 不能按其放置切分，也不能在算子之间保留部分和"],
  ["{} reads it as {}, {} as {}", "{1} 按 {2} 读取它，{3} 按 {4}"], ["let both read it alike", "请让两者以相同方式读取"],
  ["MindSpore's tools take what stands before a dash for a pipeline stage", "MindSpore 的工具把连字符前的部分当作流水线阶段"],
  ["give it another name with --names FILE", "请用 --names FILE 给它另起名称"],
  ["MindSpore would put its cuts on other devices than the plan", "MindSpore 会把切分放在与方案不同的设备上"],
  ["give the mesh axes to the factors in the order of MindSpore's device matrix", "请按 MindSpore 设备矩阵的顺序把网格轴分给各因子"],
  ["dimension of size {} of input {} is cut {} ways", "输入 {2} 中大小为 {1} 的维度切成 {3} 份"], ["choose a divisor of the size", "请选大小的约数"],
  ["input {} is cut {} ways", "输入 {1} 切成 {2} 份"], ["choose a power of two", "请选 2 的幂"],
  ["it takes {} of {} devices", "它用到 {2} 个设备中的 {1} 个"], ["choose cuts whose product divides them", "请选乘积能整除设备数的切分"],
  ["the normalised dimensions are cut {}", "被归一化的维度切分为 {1}"], ["leave them whole", "请保持完整"],
  ["the kernel is cut {}", "卷积核切分为 {1}"], ["leave it whole", "请保持完整"],
  ["the channels of a convolution in groups are cut", "分组卷积的通道被切分"], ["cut the images only", "请只切分图像"],
  ["input channels are cut {} ways and {} ways", "输入通道分别切成 {1} 份和 {2} 份"], ["cut both alike", "请让两者切分相同"],
  ["its input has {} dimensions", "其输入有 {1} 维"], ["leave it to batch parallelism", "请留给批并行"],
  ["rows of a table of {} dimensions are cut", "{1} 维表的行被切分"], ["leave the rows whole", "请保持行完整"],
  ["the rows are cut and the index is a single number", "行被切分，而索引只是一个数"],
  ["columns of the table that are looked up are cut", "被查找的表的列被切分"],
  ["the rows of the table are cut and the operator is repeated", "表的行被切分，而算子是重复的"], ["cut over all devices", "请在所有设备上切分"],
  ["both the rows of the table and the indices are cut", "表的行和索引都被切分"], ["cut one of them", "请只切分其中之一"],
  ["dimension {} is split by mesh axes that are not neighbours", "维度 {1} 由不相邻的网格轴切分"], ["split it over neighbouring axes", "请用相邻的轴切分"],
  ["it rests in another layout than the operator uses that reads it first", "它存放的布局与首先读取它的算子所用的不同"], ["let it rest as it is used", "请按使用时的布局存放"],
  ["the optimizer's share does not begin with the innermost devices that hold copies", "优化器的份额不是从持有副本的最内层设备开始"], ["split over these first", "请先在这些设备上切分"],
  ["the names of all operators are in the model file, not in the plan", "所有算子的名称在模型文件中，不在方案里"],
  ["name the .mindir: --set model=net.mindir", "请给出 .mindir：--set model=net.mindir"],
  ["the plan has no rank {}", "方案没有 rank {1}"], ["choose one from 0 to {}", "请选 0 到 {1} 之间的一个"],
  ["no pipeline in the mode {}", "模式 {1} 没有流水线"], ["{} stages do not divide {} devices", "{2} 个设备不能分给 {1} 个阶段"], ["give a divisor", "请给约数"],
  ["recursive programming takes a power of two, not {} devices", "recursive_programming 需要 2 的幂个设备，而不是 {1} 个"],
  ["use semi_auto, or plan for other devices", "请用 semi_auto，或按其他设备数规划"],
  ["sharding propagation takes no dynamic shapes", "sharding_propagation 不支持动态形状"],
  ["use semi_auto, or bind the dimensions to one size", "请用 semi_auto，或把维度固定为一个大小"],

  // Jobs
  ["the plan has groups other than the world group: {}", "除全局通信组外方案还有这些组：{1}"],
  ["start it by msrun or mpirun", "请用 msrun 或 mpirun 启动"], ["start it by mpirun or msrun", "请用 mpirun 或 msrun 启动"],
  ["the plan's ranks do not go through the servers one after the other", "方案的 rank 不是逐台服务器排列的"],
  ["start it with the rank table, or plan without moving ranks", "请用 rank table 启动，或不移动 rank 重新规划"],
  ["parameter servers serve workers that are alike, the plan has pipeline stages", "参数服务器服务于相同的 worker，而方案有流水线阶段"],
  ["search with --batch in place of --global-batch", "请用 --batch 代替 --global-batch 搜索"],
  ["a parameter server trains; the plan is one of inference", "参数服务器用于训练，而方案用于推理"], ["plan with --phase train", "请用 --phase train 规划"],
  ["it has {} bytes, a parameter on a server {} at most", "它有 {1} 字节，服务器上的参数最多 {2} 字节"], ["split the table, or leave it to the workers", "请切分该表，或留给 worker"],
  ["the plan splits it over devices; a server holds it whole", "方案把它切分到多个设备上，而服务器存放完整的参数"],
  ["hold it whole with --pin on its operator, or leave it out with --set parameters", "请对其算子用 --pin 使其保持完整，或用 --set parameters 把它排除"],

  // Sweeps
  ["the model file fixes the length of its sequences", "模型文件固定了序列长度"],
  ["leave it out, or give a model by its sizes (planner sizes --list)", "请省略它，或按尺寸给出模型（planner sizes --list）"],
];
