#include <metal_stdlib>
using namespace metal;

// 64 x 1 x 1 threads
[[max_total_threads_per_threadgroup(64)]]
kernel void vector_add_kernel0(
    device const float *A [[buffer(0)]],
    device const float *B [[buffer(1)]],
    device float *C [[buffer(2)]],
    constant int &n [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 local_thread [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const int threadIdx_x = (int)local_thread.x;
  const int blockIdx_x = (int)group.x;
  if (blockIdx_x < (n / 64)) {
    C[blockIdx_x * 64 + threadIdx_x] = A[blockIdx_x * 64 + threadIdx_x] + B[blockIdx_x * 64 + threadIdx_x];
  } else {
    if ((blockIdx_x * 64 + threadIdx_x) < n) {
      C[blockIdx_x * 64 + threadIdx_x] = A[blockIdx_x * 64 + threadIdx_x] + B[blockIdx_x * 64 + threadIdx_x];
    }
  }
}
