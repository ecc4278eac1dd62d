#include "engine/device/weight_kernels.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/checkpoint/random_weights.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/device/cuda_check.h"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/int4_rows.h"
#include "vm/layout/page_image.h"
#include "vm/warp.h"

namespace serval {
namespace {

using page_image::kPairCols;
using page_image::kPanelCols;

constexpr uint32_t kBlockThreads = 256;
constexpr uint32_t kGroupCols = 8;  // elements that a thread reads at once: 16 bytes
constexpr uint32_t kQuadLanes = kPairCols / kGroupCols;
constexpr uint32_t kPairBytes = 2 * page_image::kProductBytes;
constexpr uint32_t kPagePairs = kPageBytes / kPairBytes;

struct PackedShape {
  uint32_t rows, cols;
  uint32_t head_dim;  // 0: rows in sequence
  DType dtype;
};

PackedShape shape_of(const Tensor& weight) {
  const bool rotary = weight.row_order == RowOrder::kRotaryPairs;
  return {static_cast<uint32_t>(weight.rows), static_cast<uint32_t>(weight.cols),
          rotary ? weight.head_dim : 0, weight.dtype};
}

// The matrix row that becomes row `row` of unit `unit` in the image. With rotary pairs, rows 4-7 of a unit
// are the channels that are rotated together with rows 0-3.
__device__ uint32_t matrix_row(const PackedShape& shape, uint32_t unit, uint32_t row) {
  if (shape.head_dim == 0) return unit * kUnitRows + row;
  constexpr uint32_t kPairs = kUnitRows / 2;
  const uint32_t head_units = shape.head_dim / kUnitRows;
  const uint32_t channel =
      unit % head_units * kPairs + row % kPairs + (row < kPairs ? 0 : shape.head_dim / 2);
  return unit / head_units * shape.head_dim + channel;
}

// Sources of eight adjacent elements of a matrix.
struct RowMajor {
  const uint16_t* rows;
  uint64_t first_row;
  uint32_t cols;
  __device__ uint4 operator()(uint64_t row, uint32_t col) const {
    return *reinterpret_cast<const uint4*>(rows + (row - first_row) * cols + col);
  }
};

struct RandomMatrix {
  uint64_t key;
  float scale;
  MatrixPart part;

  __device__ uint32_t pair(uint64_t word, uint32_t i) const {
    const auto value = [&](uint32_t byte) {
      return random_matrix_value(static_cast<int8_t>(word >> (8 * byte)), scale);
    };
    return value(2 * i) | uint32_t{value(2 * i + 1)} << 16;
  }
  __device__ uint4 operator()(uint64_t row, uint32_t col) const {
    const uint64_t element = (part.first_row + row) * part.matrix_cols + part.first_col + col;
    const uint64_t word = random_word(key, element / kRandomElementsPerWord);
    return {pair(word, 0), pair(word, 1), pair(word, 2), pair(word, 3)};
  }
};
static_assert(kRandomElementsPerWord == kGroupCols);

// One warp builds the two products that cover 32 columns of each half of a page (vm/layout/page_image.h).
template <class Elements>
__global__ void __launch_bounds__(kBlockThreads)
    pack(Elements elements, PackedShape shape, uint32_t first_unit, uint64_t num_pairs, std::byte* image) {
  const uint64_t pair_index = (uint64_t{blockIdx.x} * kBlockThreads + threadIdx.x) / kWarpThreads;
  if (pair_index >= num_pairs) return;
  const auto unit_pairs = static_cast<uint32_t>(page_image::unit_bytes(shape.cols) / kPairBytes);
  const uint32_t unit = first_unit + static_cast<uint32_t>(pair_index / unit_pairs);
  const auto pair = static_cast<uint32_t>(pair_index % unit_pairs);
  const uint32_t lane = threadIdx.x % kWarpThreads;

  const uint32_t panel = pair / kPagePairs;
  const uint32_t row = matrix_row(shape, unit, lane / kQuadLanes);
  const uint32_t col = panel * kPanelCols + pair % kPagePairs * kPairCols + lane % kQuadLanes * kGroupCols;
  const auto element_group = [&](uint32_t c) {
    return row < shape.rows && c < shape.cols ? elements(row, c) : uint4{};
  };
  const uint4 first = element_group(col);
  const uint4 second = element_group(col + page_image::half_cols(shape.cols, panel));

  auto* out =
      reinterpret_cast<uint4*>(image + page_image::page_offset(shape.cols, unit, 0) + pair * kPairBytes);
  out[lane] = {first.x, second.x, first.y, second.y};
  out[kWarpThreads + lane] = {first.z, second.z, first.w, second.w};
}

// The largest magnitude of eight bf16 elements.
__device__ float largest_of(const uint4& eight) {
  float largest = 0;
  for (const uint32_t pair : {eight.x, eight.y, eight.z, eight.w}) {
    largest = fmaxf(largest, fabsf(bf16_to_float(static_cast<uint16_t>(pair))));
    largest = fmaxf(largest, fabsf(bf16_to_float(static_cast<uint16_t>(pair >> 16))));
  }
  return largest;
}
// The codes of two neighbouring elements.
__device__ uint32_t codes_of(uint32_t pair, float scale) {
  return float_to_e4m3(bf16_to_float(static_cast<uint16_t>(pair)) / scale) |
         uint32_t{float_to_e4m3(bf16_to_float(static_cast<uint16_t>(pair >> 16)) / scale)} << 8;
}

// The largest magnitude of a row, for all lanes of a warp.
template <class Elements>
__device__ float largest_of_row(const Elements& elements, uint32_t row, uint32_t cols, uint32_t lane) {
  float largest = 0;
  for (uint32_t col = lane * kGroupCols; col < cols; col += kWarpThreads * kGroupCols)
    largest = fmaxf(largest, largest_of(elements(row, col)));
  for (uint32_t step = kWarpThreads / 2; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, step));
  return largest;
}

// Sources of a row of e4m3 for a warp: its scale, and eight adjacent codes.
// Rounds as quantise_rows() does.
template <class Elements>
struct RoundedRows {
  Elements elements;

  __device__ float scale(uint32_t row, uint32_t cols, uint32_t lane) const {
    return e4m3_scale(largest_of_row(elements, row, cols, lane));
  }
  __device__ uint2 codes(uint32_t row, uint32_t col, float scale) const {
    const uint4 eight = elements(row, col);
    return {codes_of(eight.x, scale) | codes_of(eight.y, scale) << 16,
            codes_of(eight.z, scale) | codes_of(eight.w, scale) << 16};
  }
};

// Rows as vm/layout/e4m3_rows.h describes, from row `first_row` on, aligned to four bytes.
struct StoredRows {
  const uint8_t* rows;
  uint64_t first_row;
  uint32_t cols;

  __device__ const uint8_t* of(uint32_t row) const {
    return rows + (row - first_row) * e4m3_rows::row_bytes(cols);
  }
  __device__ float scale(uint32_t row, uint32_t /*cols*/, uint32_t /*lane*/) const {
    return *reinterpret_cast<const float*>(of(row) + cols);
  }
  __device__ uint2 codes(uint32_t row, uint32_t col, float /*scale*/) const {
    const auto* four = reinterpret_cast<const uint32_t*>(of(row) + col);
    return {four[0], four[1]};
  }
};

// The low halves, or the high ones, of two words.
__device__ uint32_t low_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ uint32_t high_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x7632);
}

// A block makes the e4m3 pages of one unit, a warp one row (vm/layout/e4m3_image.h): first the row's scale,
// then the codes of two products at a time. Rows beyond the matrix are zeros with scale 1.
template <class Rows>
__global__ void __launch_bounds__(kBlockThreads)
    pack_e4m3(Rows rows, PackedShape shape, uint32_t first_unit, std::byte* image) {
  static_assert(kBlockThreads / kWarpThreads == kUnitRows);
  const uint32_t unit = first_unit + blockIdx.x, row_of_unit = threadIdx.x / kWarpThreads;
  const uint32_t lane = threadIdx.x % kWarpThreads, row = matrix_row(shape, unit, row_of_unit);
  const float scale = row < shape.rows ? rows.scale(row, shape.cols, lane) : 1;
  const auto codes_at = [&](uint32_t col) {
    return row < shape.rows && col < shape.cols ? rows.codes(row, col, scale) : uint2{};
  };
  const uint32_t pages = e4m3_image::pages(page_image::panels(shape.cols));
  for (uint32_t page = lane; page < pages; page += kWarpThreads)
    *reinterpret_cast<float*>(image + e4m3_image::scale_offset(shape.cols, unit, page, row_of_unit)) = scale;

  for (uint32_t panel = 0; panel < page_image::panels(shape.cols); ++panel) {
    const uint32_t half_cols = page_image::half_cols(shape.cols, panel);
    std::byte* codes = image + e4m3_image::panel_offset(shape.cols, unit, panel);
    for (uint32_t group = lane; group < half_cols / kGroupCols; group += kWarpThreads) {
      const uint32_t pair = group / kQuadLanes, quad = group % kQuadLanes;
      const uint32_t col = panel * kPanelCols + group * kGroupCols;
      const uint2 first = codes_at(col), second = codes_at(col + half_cols);
      auto* to = reinterpret_cast<uint4*>(codes + pair * e4m3_image::kPairBytes);
      to[row_of_unit * kQuadLanes + quad] = {low_halves(first.x, second.x), high_halves(first.x, second.x),
                                             low_halves(first.y, second.y), high_halves(first.y, second.y)};
    }
  }
}

template <class Rows>
void launch_pack_e4m3(const Rows& rows, const PackedShape& shape, uint64_t first_row, uint64_t num_rows,
                      std::byte* image, cudaStream_t stream) {
  const auto num_units = static_cast<uint32_t>((num_rows + kUnitRows - 1) / kUnitRows);
  pack_e4m3<<<num_units, kBlockThreads, 0, stream>>>(rows, shape,
                                                     static_cast<uint32_t>(first_row / kUnitRows), image);
  SERVAL_CUDA_CHECK(cudaGetLastError());
}

// Element `i` of eight.
__device__ float element_of(const uint4& eight, uint32_t i) {
  const uint32_t pair = i < 4 ? (i < 2 ? eight.x : eight.y) : (i < 6 ? eight.z : eight.w);
  return bf16_to_float(static_cast<uint16_t>(i % 2 == 0 ? pair : pair >> 16));
}

// Sources of a row of 4-bit integers for a warp: its scale, a group's word, and eight adjacent codes, of
// which code i is in bits 4 i … 4 i + 3. Rounds as quantise_rows() does.
template <class Elements>
struct RoundedInt4Rows {
  Elements elements;
  uint32_t group;

  __device__ float scale(uint32_t row, uint32_t cols, uint32_t lane) const {
    return int4_row_scale(largest_of_row(elements, row, cols, lane));
  }
  __device__ uint32_t word(uint32_t row, uint32_t index, float scale) const {
    float least = 0, most = 0;
    for (uint32_t col = 0; col < group; col += kGroupCols) {
      const uint4 eight = elements(row, index * group + col);
      for (uint32_t i = 0; i < kGroupCols; ++i) {
        const float element = element_of(eight, i) / scale;
        least = fminf(least, element);
        most = fmaxf(most, element);
      }
    }
    return int4_word(least, most);
  }
  __device__ uint32_t codes(uint32_t row, uint32_t col, uint32_t word, float scale) const {
    const uint4 eight = elements(row, col);
    uint32_t codes = 0;
    for (uint32_t i = 0; i < kGroupCols; ++i) codes |= int4_code(element_of(eight, i) / scale, word) << 4 * i;
    return codes;
  }
};

// Rows as vm/layout/int4_rows.h describes, from row `first_row` on, aligned to four bytes.
struct StoredInt4Rows {
  const uint8_t* rows;
  uint64_t first_row;
  uint32_t cols, group;

  __device__ uint32_t load(uint32_t row, uint64_t offset) const {
    return *reinterpret_cast<const uint32_t*>(rows + (row - first_row) * int4_rows::row_bytes(cols, group) +
                                              offset);
  }
  __device__ float scale(uint32_t row, uint32_t /*cols*/, uint32_t /*lane*/) const {
    return __uint_as_float(load(row, int4_rows::row_bytes(cols, group) - sizeof(float)));
  }
  __device__ uint32_t word(uint32_t row, uint32_t index, float /*scale*/) const {
    return load(row, int4_rows::code_bytes(cols) + index * sizeof(uint32_t));
  }
  __device__ uint32_t codes(uint32_t row, uint32_t col, uint32_t /*word*/, float /*scale*/) const {
    const uint64_t byte = int4_rows::byte_of(col), in_word = byte % sizeof(uint32_t);
    uint32_t codes = 0;
    for (uint32_t pair = 0; pair < kGroupCols / 2; ++pair)
      codes |= (load(row, byte - in_word + pair * sizeof(uint32_t)) >> 8 * in_word & 0xFF) << 8 * pair;
    return codes;
  }
};

// The order of a lane's word in an image.
__device__ uint32_t in_image_order(uint32_t codes) {
  uint32_t word = 0;
  for (uint32_t col = 0; col < kGroupCols; ++col)
    word |= (codes >> 4 * col & 0xF) << int4_image::shift_of(col);
  return word;
}

// A block makes the parts of one unit of 4-bit integers, a warp one row (vm/layout/int4_image.h): first the
// row's scale, then the words of its groups, then the codes of four products at a time. Rows and columns
// beyond the matrix are zeros.
template <class Rows>
__global__ void __launch_bounds__(kBlockThreads)
    pack_int4(Rows rows, PackedShape shape, uint32_t group, uint32_t first_unit, std::byte* image) {
  static_assert(kBlockThreads / kWarpThreads == kUnitRows);
  const uint32_t unit = first_unit + blockIdx.x, row_of_unit = threadIdx.x / kWarpThreads;
  const uint32_t lane = threadIdx.x % kWarpThreads, row = matrix_row(shape, unit, row_of_unit);
  const float scale = row < shape.rows ? rows.scale(row, shape.cols, lane) : 1;
  const auto exists = [&](uint32_t col) { return row < shape.rows && col < shape.cols; };
  const uint32_t panels = page_image::panels(shape.cols);
  const auto part_of = [&](uint32_t panel) {
    return image + int4_image::part_offset(shape.cols, group, unit, panel / int4_image::kPanelsOfPart);
  };
  for (uint32_t part = lane; part < int4_image::parts(panels); part += kWarpThreads)
    *reinterpret_cast<float*>(part_of(part * int4_image::kPanelsOfPart) +
                              int4_image::scale_in_part(shape.cols, group, part, row_of_unit)) = scale;

  const auto word_at = [&](uint32_t panel, uint32_t index) {
    return reinterpret_cast<uint32_t*>(
        part_of(panel) + int4_image::word_in_part(shape.cols, group, panel, index, row_of_unit));
  };
  for (uint32_t panel = 0; panel < panels; ++panel) {
    const uint32_t half_cols = page_image::half_cols(shape.cols, panel);
    const uint32_t groups = int4_image::word_bytes_of_half(half_cols, group) / int4_image::kGroupBytes;
    for (uint32_t n = lane; n < groups; n += kWarpThreads) {
      const uint32_t index = panel * (kPanelCols / group) + n;
      *word_at(panel, n) =
          exists(index * group) ? rows.word(row, index, scale) : int4::word_with_zero_point(0, 0);
    }
  }
  __syncwarp();

  for (uint32_t panel = 0; panel < panels; ++panel) {
    const uint32_t half_cols = page_image::half_cols(shape.cols, panel);
    std::byte* to = part_of(panel) + int4_image::panel_in_part(panel);
    const auto codes_at = [&](uint32_t half, uint32_t in_half) {
      const uint32_t in_panel = half * half_cols + in_half, col = panel * kPanelCols + in_panel;
      if (in_half >= half_cols || !exists(col)) return 0U;
      return in_image_order(rows.codes(row, col, *word_at(panel, in_panel / group), scale));
    };
    const uint32_t blocks = int4_image::code_bytes_of_half(half_cols) / int4_image::kBlockBytes;
    for (uint32_t n = lane; n < blocks * kQuadLanes; n += kWarpThreads) {
      const uint32_t quad = n % kQuadLanes, block = n / kQuadLanes;
      const uint32_t first = block * int4_image::kBlockCols + quad * kGroupCols, second = first + kPairCols;
      reinterpret_cast<uint4*>(to + block * int4_image::kBlockBytes)[row_of_unit * kQuadLanes + quad] = {
          codes_at(0, first), codes_at(1, first), codes_at(0, second), codes_at(1, second)};
    }
  }
}

template <class Rows>
void launch_pack_int4(const Rows& rows, const PackedShape& shape, uint64_t first_row, uint64_t num_rows,
                      std::byte* image, cudaStream_t stream) {
  const auto num_units = static_cast<uint32_t>((num_rows + kUnitRows - 1) / kUnitRows);
  pack_int4<<<num_units, kBlockThreads, 0, stream>>>(rows, shape, group_of(shape.dtype),
                                                     static_cast<uint32_t>(first_row / kUnitRows), image);
  SERVAL_CUDA_CHECK(cudaGetLastError());
}

template <class Elements>
void launch_pack(const Elements& elements, const PackedShape& shape, uint64_t first_row, uint64_t num_rows,
                 std::byte* image, cudaStream_t stream) {
  if (is_int4(shape.dtype))
    return launch_pack_int4(RoundedInt4Rows<Elements>{elements, group_of(shape.dtype)}, shape, first_row,
                            num_rows, image, stream);
  if (shape.dtype == DType::kE4M3)
    return launch_pack_e4m3(RoundedRows<Elements>{elements}, shape, first_row, num_rows, image, stream);
  const uint64_t num_units = (num_rows + kUnitRows - 1) / kUnitRows;
  const uint64_t num_pairs = num_units * (page_image::unit_bytes(shape.cols) / kPairBytes);
  constexpr uint32_t kBlockPairs = kBlockThreads / kWarpThreads;
  const auto blocks = static_cast<uint32_t>((num_pairs + kBlockPairs - 1) / kBlockPairs);
  pack<<<blocks, kBlockThreads, 0, stream>>>(elements, shape, static_cast<uint32_t>(first_row / kUnitRows),
                                             num_pairs, image);
  SERVAL_CUDA_CHECK(cudaGetLastError());
}

__global__ void __launch_bounds__(kBlockThreads)
    fill(RandomMatrix elements, uint64_t num_groups, uint4* out) {
  const uint64_t group = uint64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (group < num_groups) out[group] = elements(group, 0);
}

}  // namespace

uint32_t slice_rows(const Tensor& weight) {
  return weight.row_order == RowOrder::kRotaryPairs ? weight.head_dim : kUnitRows;
}

void pack_rows(const Tensor& weight, uint64_t first_row, uint64_t num_rows, const uint16_t* rows,
               std::byte* image, cudaStream_t stream) {
  const PackedShape shape = shape_of(weight);
  launch_pack(RowMajor{rows, first_row, shape.cols}, shape, first_row, num_rows, image, stream);
}

void pack_code_rows(const Tensor& weight, uint64_t first_row, uint64_t num_rows, const uint8_t* rows,
                    std::byte* image, cudaStream_t stream) {
  const PackedShape shape = shape_of(weight);
  if (is_int4(shape.dtype))
    return launch_pack_int4(StoredInt4Rows{rows, first_row, shape.cols, group_of(shape.dtype)}, shape,
                            first_row, num_rows, image, stream);
  launch_pack_e4m3(StoredRows{rows, first_row, shape.cols}, shape, first_row, num_rows, image, stream);
}

void pack_random(const Tensor& weight, const std::string& name, const MatrixPart& part, uint64_t seed,
                 std::byte* image, cudaStream_t stream) {
  const PackedShape shape = shape_of(weight);
  const RandomMatrix elements{random_tensor_key(name, seed),
                              random_matrix_scale(static_cast<int64_t>(part.matrix_cols)), part};
  launch_pack(elements, shape, 0, shape.rows, image, stream);
}

void fill_random(uint16_t* out, uint64_t count, uint64_t key, float scale, cudaStream_t stream) {
  const uint64_t num_groups = count / kGroupCols;
  const auto blocks = static_cast<uint32_t>((num_groups + kBlockThreads - 1) / kBlockThreads);
  fill<<<blocks, kBlockThreads, 0, stream>>>(RandomMatrix{key, scale, {0, 0, kGroupCols}}, num_groups,
                                             reinterpret_cast<uint4*>(out));
  SERVAL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace serval
