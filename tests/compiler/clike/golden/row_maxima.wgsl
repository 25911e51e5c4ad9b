@group(0) @binding(0) var<storage, read> A: array<f32>;
@group(0) @binding(1) var<storage, read_write> C_v0: array<i32>;
@group(0) @binding(2) var<storage, read_write> C_v1: array<f32>;
var<workgroup> reduced: array<i32, 32>;
var<workgroup> reduced_1: array<f32, 32>;

fn vt_float(bits: u32) -> f32 {
  return bitcast<f32>(bits);
}

fn vt_max_float32(a: f32, b: f32) -> f32 {
  return select(a, b, ((a < b) || (b != b)));
}

@compute @workgroup_size(32, 1, 1)
fn row_maxima_kernel0(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local_thread: vec3<u32>) {
  let threadIdx_x: i32 = i32(local_thread.x);
  let blockIdx_x: i32 = i32(group.x);
  var C_v0_part: array<i32, 1>;
  var C_v1_part: array<f32, 1>;
  var C_v0_all: array<i32, 1>;
  var C_v1_all: array<f32, 1>;
  C_v0_part[0] = -1;
  C_v1_part[0] = vt_float(0xff800000u);
  for (var k_outer: i32 = 0; k_outer < 2; k_outer++) {
    if ((k_outer * 32 + threadIdx_x) < 40) {
      let x0_0: i32 = C_v0_part[0];
      let x1_1: f32 = C_v1_part[0];
      let y0_2: i32 = k_outer * 32 + threadIdx_x;
      let y1_3: f32 = A[blockIdx_x * 40 + threadIdx_x + (k_outer * 32)];
      C_v0_part[0] = select(y0_2, x0_0, (y1_3 <= x1_1));
      C_v1_part[0] = vt_max_float32(x1_1, y1_3);
    }
  }
  reduced[threadIdx_x] = C_v0_part[0];
  reduced_1[threadIdx_x] = C_v1_part[0];
  workgroupBarrier(); storageBarrier();
  if (threadIdx_x < 16) {
    let combined: i32 = select(reduced[threadIdx_x + 16], reduced[threadIdx_x], (reduced_1[threadIdx_x + 16] <= reduced_1[threadIdx_x]));
    let combined_1: f32 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 16]);
    reduced[threadIdx_x] = combined;
    reduced_1[threadIdx_x] = combined_1;
  }
  workgroupBarrier(); storageBarrier();
  if (threadIdx_x < 8) {
    let combined_2: i32 = select(reduced[threadIdx_x + 8], reduced[threadIdx_x], (reduced_1[threadIdx_x + 8] <= reduced_1[threadIdx_x]));
    let combined_3: f32 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 8]);
    reduced[threadIdx_x] = combined_2;
    reduced_1[threadIdx_x] = combined_3;
  }
  workgroupBarrier(); storageBarrier();
  if (threadIdx_x < 4) {
    let combined_4: i32 = select(reduced[threadIdx_x + 4], reduced[threadIdx_x], (reduced_1[threadIdx_x + 4] <= reduced_1[threadIdx_x]));
    let combined_5: f32 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 4]);
    reduced[threadIdx_x] = combined_4;
    reduced_1[threadIdx_x] = combined_5;
  }
  workgroupBarrier(); storageBarrier();
  if (threadIdx_x < 2) {
    let combined_6: i32 = select(reduced[threadIdx_x + 2], reduced[threadIdx_x], (reduced_1[threadIdx_x + 2] <= reduced_1[threadIdx_x]));
    let combined_7: f32 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 2]);
    reduced[threadIdx_x] = combined_6;
    reduced_1[threadIdx_x] = combined_7;
  }
  workgroupBarrier(); storageBarrier();
  if (threadIdx_x < 1) {
    let combined_8: i32 = select(reduced[threadIdx_x + 1], reduced[threadIdx_x], (reduced_1[threadIdx_x + 1] <= reduced_1[threadIdx_x]));
    let combined_9: f32 = vt_max_float32(reduced_1[threadIdx_x], reduced_1[threadIdx_x + 1]);
    reduced[threadIdx_x] = combined_8;
    reduced_1[threadIdx_x] = combined_9;
  }
  workgroupBarrier(); storageBarrier();
  C_v0_all[0] = reduced[0];
  C_v1_all[0] = reduced_1[0];
  if (threadIdx_x == 0) {
    C_v0[blockIdx_x] = C_v0_all[0];
    C_v1[blockIdx_x] = C_v1_all[0];
  }
}
