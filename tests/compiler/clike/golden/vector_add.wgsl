@group(0) @binding(0) var<storage, read> A: array<f32>;
@group(0) @binding(1) var<storage, read> B: array<f32>;
@group(0) @binding(2) var<storage, read_write> C: array<f32>;

struct vector_add_kernel0_scalars { n: i32 }
@group(0) @binding(3) var<uniform> vector_add_kernel0_args: vector_add_kernel0_scalars;
@compute @workgroup_size(64, 1, 1)
fn vector_add_kernel0(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local_thread: vec3<u32>) {
  let threadIdx_x: i32 = i32(local_thread.x);
  let blockIdx_x: i32 = i32(group.x);
  if (blockIdx_x < (vector_add_kernel0_args.n / 64)) {
    C[blockIdx_x * 64 + threadIdx_x] = A[blockIdx_x * 64 + threadIdx_x] + B[blockIdx_x * 64 + threadIdx_x];
  } else {
    if ((blockIdx_x * 64 + threadIdx_x) < vector_add_kernel0_args.n) {
      C[blockIdx_x * 64 + threadIdx_x] = A[blockIdx_x * 64 + threadIdx_x] + B[blockIdx_x * 64 + threadIdx_x];
    }
  }
}
