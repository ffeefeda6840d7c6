// planner: {"arguments": [{"name": "down.bias", "role": "parameter"}, {"name": "down.weight", "role": "parameter"}, {"name": "up.bias", "role": "parameter"}, {"name": "up.weight", "role": "parameter"}, {"name": "x", "role": "input"}]}
module @jit_mlp attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512xf32> loc("params['down']['bias']"), %arg1: tensor<512x2048xf32> loc("params['down']['weight']"), %arg2: tensor<2048xf32> loc("params['up']['bias']"), %arg3: tensor<2048x512xf32> loc("params['up']['weight']"), %arg4: tensor<64x512xf32> loc("x")) -> (tensor<64x512xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg3, dims = [1, 0] : (tensor<2048x512xf32>) -> tensor<512x2048xf32> loc("jit(mlp)/transpose")
    %1 = stablehlo.dot_general %arg4, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<512x2048xf32>) -> tensor<64x2048xf32> loc("jit(mlp)/dot_general")
    %2 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<2048xf32>) -> tensor<1x2048xf32> loc("jit(mlp)/broadcast_in_dim")
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x2048xf32>) -> tensor<64x2048xf32> loc("jit(mlp)/add")
    %4 = stablehlo.add %1, %3 : tensor<64x2048xf32> loc("jit(mlp)/add")
    %5 = call @relu(%4) : (tensor<64x2048xf32>) -> tensor<64x2048xf32> loc("jit(mlp)/jit(relu)")
    %6 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<512x2048xf32>) -> tensor<2048x512xf32> loc("jit(mlp)/transpose")
    %7 = stablehlo.dot_general %5, %6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x2048xf32>, tensor<2048x512xf32>) -> tensor<64x512xf32> loc("jit(mlp)/dot_general")
    %8 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<512xf32>) -> tensor<1x512xf32> loc("jit(mlp)/broadcast_in_dim")
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x512xf32>) -> tensor<64x512xf32> loc("jit(mlp)/add")
    %10 = stablehlo.add %7, %9 : tensor<64x512xf32> loc("jit(mlp)/add")
    return %10 : tensor<64x512xf32> loc("jit(mlp)")
  }
  func.func private @relu(%arg0: tensor<64x2048xf32>) -> tensor<64x2048xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x2048xf32> loc("max")
    %1 = stablehlo.maximum %arg0, %0 : tensor<64x2048xf32> loc("max")
    return %1 : tensor<64x2048xf32>
  } loc("jit:")
}
