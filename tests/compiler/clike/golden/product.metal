#include <metal_stdlib>
using namespace metal;

// 4 x 16 x 1 threads
[[max_total_threads_per_threadgroup(64)]]
kernel void product_kernel0(
    device const half *A [[buffer(0)]],
    device const half *B [[buffer(1)]],
    device float *C [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 local_thread [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup half A_shared[128];
  threadgroup half B_shared[128];
  const int threadIdx_y = (int)local_thread.y;
  const int threadIdx_x = (int)local_thread.x;
  const int blockIdx_y = (int)group.y;
  const int blockIdx_x = (int)group.x;
  float C_local[4];
  for (int j_init = 0; j_init < 4; ++j_init) {
    C_local[j_init] = 0.0f;
  }
  for (int k_outer = 0; k_outer < 8; ++k_outer) {
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    for (int i0_i1_fused_outer_outer = 0; i0_i1_fused_outer_outer < 2; ++i0_i1_fused_outer_outer) {
      A_shared[threadIdx_x + (threadIdx_y * 4) + (i0_i1_fused_outer_outer * 64)] = A[blockIdx_y * 1024 + (i0_i1_fused_outer_outer * 512) + ((threadIdx_y / 2) * 56) + (k_outer * 8) + (threadIdx_y * 4) + threadIdx_x];
    }
    for (int i0_i1_fused_outer_outer_1 = 0; i0_i1_fused_outer_outer_1 < 2; ++i0_i1_fused_outer_outer_1) {
      B_shared[threadIdx_x + (threadIdx_y * 4) + (i0_i1_fused_outer_outer_1 * 64)] = B[k_outer * 512 + (i0_i1_fused_outer_outer_1 * 256) + ((threadIdx_y / 4) * 48) + (blockIdx_x * 16) + (threadIdx_y * 4) + threadIdx_x];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    for (int j = 0; j < 4; ++j) {
      for (int k_inner = 0; k_inner < 8; ++k_inner) {
        C_local[j] = C_local[j] + (((float)A_shared[threadIdx_y * 8 + k_inner]) * ((float)B_shared[threadIdx_x * 4 + j + (k_inner * 16)]));
      }
    }
  }
  *(device packed_float4 *)&C[blockIdx_x * 16 + (blockIdx_y * 1024) + (threadIdx_x * 4) + (threadIdx_y * 64)] = packed_float4(C_local[0], C_local[0 + 1], C_local[0 + 2], C_local[0 + 3]);
}
