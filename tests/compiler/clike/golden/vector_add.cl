__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void vector_add_kernel0(__global const float *restrict A, __global const float *restrict B, __global float *restrict C, const int n) {
  const int threadIdx_x = (int)get_local_id(0);
  const int blockIdx_x = (int)get_group_id(0);
  if (blockIdx_x < (n / 64)) {
    C[blockIdx_x * 64 + threadIdx_x] = A[blockIdx_x * 64 + threadIdx_x] + B[blockIdx_x * 64 + threadIdx_x];
  } else {
    if ((blockIdx_x * 64 + threadIdx_x) < n) {
      C[blockIdx_x * 64 + threadIdx_x] = A[blockIdx_x * 64 + threadIdx_x] + B[blockIdx_x * 64 + threadIdx_x];
    }
  }
}
