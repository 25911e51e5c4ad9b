@group(0) @binding(0) var<storage, read> A: array<u32>;
@group(0) @binding(1) var<storage, read> B: array<u32>;
@group(0) @binding(2) var<storage, read_write> C: array<f32>;
var<workgroup> A_shared: array<u32, 128>;
var<workgroup> B_shared: array<u32, 128>;

fn vt_half_value(a: u32) -> f32 {
  let t: u32 = a & 32767u;
  return bitcast<f32>(select(select(((t << u32(13u)) | 2139095040u), ((t << u32(13u)) + 939524096u), (t < 31744u)), bitcast<u32>(f32(t) * 5.9604645e-08f), (t < 1024u)) | ((a & 32768u) << u32(16u)));
}

@compute @workgroup_size(4, 16, 1)
fn product_kernel0(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local_thread: vec3<u32>) {
  let threadIdx_y: i32 = i32(local_thread.y);
  let threadIdx_x: i32 = i32(local_thread.x);
  let blockIdx_y: i32 = i32(group.y);
  let blockIdx_x: i32 = i32(group.x);
  var C_local: array<f32, 4>;
  for (var j_init: i32 = 0; j_init < 4; j_init++) {
    C_local[j_init] = 0.0f;
  }
  for (var k_outer: i32 = 0; k_outer < 8; k_outer++) {
    workgroupBarrier(); storageBarrier();
    for (var i0_i1_fused_outer_outer: i32 = 0; i0_i1_fused_outer_outer < 2; i0_i1_fused_outer_outer++) {
      A_shared[threadIdx_x + (threadIdx_y * 4) + (i0_i1_fused_outer_outer * 64)] = A[blockIdx_y * 1024 + (i0_i1_fused_outer_outer * 512) + ((threadIdx_y / 2) * 56) + (k_outer * 8) + (threadIdx_y * 4) + threadIdx_x];
    }
    for (var i0_i1_fused_outer_outer_1: i32 = 0; i0_i1_fused_outer_outer_1 < 2; i0_i1_fused_outer_outer_1++) {
      B_shared[threadIdx_x + (threadIdx_y * 4) + (i0_i1_fused_outer_outer_1 * 64)] = B[k_outer * 512 + (i0_i1_fused_outer_outer_1 * 256) + ((threadIdx_y / 4) * 48) + (blockIdx_x * 16) + (threadIdx_y * 4) + threadIdx_x];
    }
    workgroupBarrier(); storageBarrier();
    for (var j: i32 = 0; j < 4; j++) {
      for (var k_inner: i32 = 0; k_inner < 8; k_inner++) {
        C_local[j] = C_local[j] + (vt_half_value(A_shared[threadIdx_y * 8 + k_inner]) * vt_half_value(B_shared[threadIdx_x * 4 + j + (k_inner * 16)]));
      }
    }
  }
  let t: f32 = C_local[0];
  let t_1: f32 = C_local[0 + 1];
  let t_2: f32 = C_local[0 + 2];
  let t_3: f32 = C_local[0 + 3];
  C[blockIdx_x * 16 + (blockIdx_y * 1024) + (threadIdx_x * 4) + (threadIdx_y * 64)] = t;
  C[blockIdx_x * 16 + (blockIdx_y * 1024) + (threadIdx_x * 4) + (threadIdx_y * 64) + 1] = t_1;
  C[blockIdx_x * 16 + (blockIdx_y * 1024) + (threadIdx_x * 4) + (threadIdx_y * 64) + 2] = t_2;
  C[blockIdx_x * 16 + (blockIdx_y * 1024) + (threadIdx_x * 4) + (threadIdx_y * 64) + 3] = t_3;
}
