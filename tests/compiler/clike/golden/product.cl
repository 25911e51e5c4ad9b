__kernel __attribute__((reqd_work_group_size(4, 16, 1)))
void product_kernel0(__global const ushort *restrict A, __global const ushort *restrict B, __global float *restrict C) {
  __local ushort A_shared[128];
  __local ushort B_shared[128];
  const int threadIdx_y = (int)get_local_id(1);
  const int threadIdx_x = (int)get_local_id(0);
  const int blockIdx_y = (int)get_group_id(1);
  const int blockIdx_x = (int)get_group_id(0);
  float C_local[4];
  for (int j_init = 0; j_init < 4; ++j_init) {
    C_local[j_init] = 0.0f;
  }
  for (int k_outer = 0; k_outer < 8; ++k_outer) {
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int i0_i1_fused_outer_outer = 0; i0_i1_fused_outer_outer < 2; ++i0_i1_fused_outer_outer) {
      A_shared[threadIdx_x + (threadIdx_y * 4) + (i0_i1_fused_outer_outer * 64)] = A[blockIdx_y * 1024 + (i0_i1_fused_outer_outer * 512) + ((threadIdx_y / 2) * 56) + (k_outer * 8) + (threadIdx_y * 4) + threadIdx_x];
    }
    for (int i0_i1_fused_outer_outer_1 = 0; i0_i1_fused_outer_outer_1 < 2; ++i0_i1_fused_outer_outer_1) {
      B_shared[threadIdx_x + (threadIdx_y * 4) + (i0_i1_fused_outer_outer_1 * 64)] = B[k_outer * 512 + (i0_i1_fused_outer_outer_1 * 256) + ((threadIdx_y / 4) * 48) + (blockIdx_x * 16) + (threadIdx_y * 4) + threadIdx_x];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int j = 0; j < 4; ++j) {
      for (int k_inner = 0; k_inner < 8; ++k_inner) {
        C_local[j] = C_local[j] + (vload_half(0, (__local const half *)&A_shared[threadIdx_y * 8 + k_inner]) * vload_half(0, (__local const half *)&B_shared[threadIdx_x * 4 + j + (k_inner * 16)]));
      }
    }
  }
  const float4 C_local_4 = vload4(0, &C_local[0]);
  vstore4(C_local_4, 0, &C[blockIdx_x * 16 + (blockIdx_y * 1024) + (threadIdx_x * 4) + (threadIdx_y * 64)]);
}
