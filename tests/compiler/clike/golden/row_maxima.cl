static float vt_max_float32(float a, float b) {
  return ((a < b) || (b != b)) ? b : a;
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void row_maxima_kernel0(__global const float *restrict A, __global int *restrict C_v0, __global float *restrict C_v1) {
  __local int reduced[32];
  __local float reduced_1[32];
  const int threadIdx_x = (int)get_local_id(0);
  const int blockIdx_x = (int)get_group_id(0);
  int C_v0_part[1];
  float C_v1_part[1];
  int C_v0_all[1];
  float C_v1_all[1];
  C_v0_part[0] = -1;
  C_v1_part[0] = -INFINITY;
  for (int k_outer = 0; k_outer < 2; ++k_outer) {
    if ((k_outer * 32 + threadIdx_x) < 40) {
      const int x0_0 = C_v0_part[0];
      const float x1_1 = C_v1_part[0];
      const int y0_2 = k_outer * 32 + threadIdx_x;
      const float y1_3 = A[blockIdx_x * 40 + threadIdx_x + (k_outer * 32)];
      C_v0_part[0] = (y1_3 <= x1_1) ? x0_0 : y0_2;
      C_v1_part[0] = vt_max_float32(x1_1, y1_3);
    }
  }
  reduced[threadIdx_x] = C_v0_part[0];
  reduced_1[threadIdx_x] = C_v1_part[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (threadIdx_x < 16) {
    const int combined = (reduced_1[threadIdx_x + 16] <= reduced_1[threadIdx_x]) ? reduced[threadIdx_x] : reduced[threadIdx_x + 16];
    const float combined_1 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 16]);
    reduced[threadIdx_x] = combined;
    reduced_1[threadIdx_x] = combined_1;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (threadIdx_x < 8) {
    const int combined_2 = (reduced_1[threadIdx_x + 8] <= reduced_1[threadIdx_x]) ? reduced[threadIdx_x] : reduced[threadIdx_x + 8];
    const float combined_3 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 8]);
    reduced[threadIdx_x] = combined_2;
    reduced_1[threadIdx_x] = combined_3;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (threadIdx_x < 4) {
    const int combined_4 = (reduced_1[threadIdx_x + 4] <= reduced_1[threadIdx_x]) ? reduced[threadIdx_x] : reduced[threadIdx_x + 4];
    const float combined_5 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 4]);
    reduced[threadIdx_x] = combined_4;
    reduced_1[threadIdx_x] = combined_5;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (threadIdx_x < 2) {
    const int combined_6 = (reduced_1[threadIdx_x + 2] <= reduced_1[threadIdx_x]) ? reduced[threadIdx_x] : reduced[threadIdx_x + 2];
    const float combined_7 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 2]);
    reduced[threadIdx_x] = combined_6;
    reduced_1[threadIdx_x] = combined_7;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (threadIdx_x < 1) {
    const int combined_8 = (reduced_1[threadIdx_x + 1] <= reduced_1[threadIdx_x]) ? reduced[threadIdx_x] : reduced[threadIdx_x + 1];
    const float combined_9 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 1]);
    reduced[threadIdx_x] = combined_8;
    reduced_1[threadIdx_x] = combined_9;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  C_v0_all[0] = reduced[0];
  C_v1_all[0] = reduced_1[0];
  if (threadIdx_x == 0) {
    C_v0[blockIdx_x] = C_v0_all[0];
    C_v1[blockIdx_x] = C_v1_all[0];
  }
}
