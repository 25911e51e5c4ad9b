#include <metal_stdlib>
using namespace metal;

static inline float vt_max_float32(float a, float b) {
  return ((a < b) || (b != b)) ? b : a;
}

// 32 x 1 x 1 threads
[[max_total_threads_per_threadgroup(32)]]
kernel void row_maxima_kernel0(
    device const float *A [[buffer(0)]],
    device int *C_v0 [[buffer(1)]],
    device float *C_v1 [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 local_thread [[thread_position_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const int threadIdx_x = (int)local_thread.x;
  const int blockIdx_x = (int)group.x;
  int C_v0_part[1];
  float C_v1_part[1];
  int reduced[1];
  float reduced_1[1];
  int taken[1];
  float taken_1[1];
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
  reduced[0] = C_v0_part[0];
  reduced_1[0] = C_v1_part[0];
  taken[0] = select(reduced[0], simd_shuffle_down(reduced[0], (ushort)16), (lane & 31u) + (uint)16 < 32u);
  taken_1[0] = select(reduced_1[0], simd_shuffle_down(reduced_1[0], (ushort)16), (lane & 31u) + (uint)16 < 32u);
  const int combined = (taken_1[0] <= reduced_1[0]) ? reduced[0] : taken[0];
  const float combined_1 = vt_max_float32(reduced_1[0], taken_1[0]);
  reduced[0] = combined;
  reduced_1[0] = combined_1;
  taken[0] = select(reduced[0], simd_shuffle_down(reduced[0], (ushort)8), (lane & 31u) + (uint)8 < 32u);
  taken_1[0] = select(reduced_1[0], simd_shuffle_down(reduced_1[0], (ushort)8), (lane & 31u) + (uint)8 < 32u);
  const int combined_2 = (taken_1[0] <= reduced_1[0]) ? reduced[0] : taken[0];
  const float combined_3 = vt_max_float32(reduced_1[0], taken_1[0]);
  reduced[0] = combined_2;
  reduced_1[0] = combined_3;
  taken[0] = select(reduced[0], simd_shuffle_down(reduced[0], (ushort)4), (lane & 31u) + (uint)4 < 32u);
  taken_1[0] = select(reduced_1[0], simd_shuffle_down(reduced_1[0], (ushort)4), (lane & 31u) + (uint)4 < 32u);
  const int combined_4 = (taken_1[0] <= reduced_1[0]) ? reduced[0] : taken[0];
  const float combined_5 = vt_max_float32(reduced_1[0], taken_1[0]);
  reduced[0] = combined_4;
  reduced_1[0] = combined_5;
  taken[0] = select(reduced[0], simd_shuffle_down(reduced[0], (ushort)2), (lane & 31u) + (uint)2 < 32u);
  taken_1[0] = select(reduced_1[0], simd_shuffle_down(reduced_1[0], (ushort)2), (lane & 31u) + (uint)2 < 32u);
  const int combined_6 = (taken_1[0] <= reduced_1[0]) ? reduced[0] : taken[0];
  const float combined_7 = vt_max_float32(reduced_1[0], taken_1[0]);
  reduced[0] = combined_6;
  reduced_1[0] = combined_7;
  taken[0] = select(reduced[0], simd_shuffle_down(reduced[0], (ushort)1), (lane & 31u) + (uint)1 < 32u);
  taken_1[0] = select(reduced_1[0], simd_shuffle_down(reduced_1[0], (ushort)1), (lane & 31u) + (uint)1 < 32u);
  const int combined_8 = (taken_1[0] <= reduced_1[0]) ? reduced[0] : taken[0];
  const float combined_9 = vt_max_float32(reduced_1[0], taken_1[0]);
  reduced[0] = combined_8;
  reduced_1[0] = combined_9;
  C_v0_all[0] = simd_shuffle(reduced[0], (lane & ~31u) + (ushort)0);
  C_v1_all[0] = simd_shuffle(reduced_1[0], (lane & ~31u) + (ushort)0);
  if (threadIdx_x == 0) {
    C_v0[blockIdx_x] = C_v0_all[0];
    C_v1[blockIdx_x] = C_v1_all[0];
  }
}
