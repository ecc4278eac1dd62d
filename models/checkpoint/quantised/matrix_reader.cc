#include "models/checkpoint/quantised/matrix_reader.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "vm/base/error.h"

namespace serval {
namespace {

using Shape = std::vector<int64_t>;

constexpr std::string_view kWeightSuffix = ".weight";
constexpr int64_t kWordBits = PackedCodes::kWordBits;

bool is_dense(StoredType type) {
  return type == StoredType::kBF16 || type == StoredType::kF16 || type == StoredType::kF32;
}

bool is_quantised(StoredType type) {
  return type == StoredType::kF8E4M3 || type == StoredType::kI8;
}

int64_t divided_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

// Reads the tensors of one module by its scheme.
class MatrixReader {
 public:
  MatrixReader(const Checkpoint& checkpoint, std::string module, const WeightSpec& spec,
               const WeightScheme& scheme)
      : checkpoint_(checkpoint), module_(std::move(module)), scheme_(scheme) {
    matrix_.type = scheme.type;
    matrix_.rows = spec.rows;
    matrix_.cols = spec.cols;
  }

  FoundMatrix read() {
    switch (scheme_.layout) {
      case WeightLayout::kScaled:
        read_scaled();
        break;
      case WeightLayout::kPacked:
        read_packed();
        break;
      case WeightLayout::kGptq:
        read_gptq();
        break;
      case WeightLayout::kAwq:
        read_awq();
        break;
    }
    if (matrix_.type == CodeType::kUint4 && matrix_.scales.type == StoredType::kF32)
      matrix_.wide_scales_fit = matrix_.scales_fit_fp16();
    return {std::move(matrix_), std::move(tensors_)};
  }

 private:
  const TensorView* find(const char* suffix) const {
    const std::string name = fmt::format("{}.{}", module_, suffix);
    return checkpoint_.contains(name) ? &checkpoint_.tensor(name) : nullptr;
  }

  [[noreturn]] void fail(const char* suffix, const std::string& problem) const {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", where(suffix), problem));
  }

  std::string where(const char* suffix) const {
    const std::string name = fmt::format("{}.{}", module_, suffix);
    const std::string& file = checkpoint_.contains(name) ? checkpoint_.path_of(name) : checkpoint_.source();
    return fmt::format("{}: tensor {}", file, shown(name));
  }

  const TensorView& required(const char* suffix) {
    const TensorView* tensor = find(suffix);
    if (tensor == nullptr) fail(suffix, "missing");
    tensors_.push_back(tensor->name);
    return *tensor;
  }

  // A tensor of one of these types and shapes.
  const TensorView& required(const char* suffix, std::initializer_list<StoredType> types,
                             std::initializer_list<Shape> shapes) {
    const TensorView& tensor = required(suffix);
    if (std::ranges::find(types, tensor.dtype) == types.end()) {
      std::vector<std::string_view> names;
      for (const StoredType type : types) names.push_back(dtype_name(type));
      fail(suffix,
           fmt::format("found dtype {}; expected {}", dtype_name(tensor.dtype), fmt::join(names, " or ")));
    }
    if (std::ranges::find(shapes, tensor.shape) == shapes.end())
      fail(suffix, fmt::format("found shape {}, expected {}: the matrix is {}", shape_text(tensor.shape),
                               shape_text(*shapes.begin()), shape_text(Shape{matrix_.rows, matrix_.cols})));
    return tensor;
  }

  const TensorView& required_scales(const char* suffix, std::initializer_list<Shape> shapes) {
    const TensorView& tensor = required(
        suffix, {StoredType::kF32, StoredType::kBF16, StoredType::kF16, StoredType::kF8E8M0}, shapes);
    matrix_.scales.data = tensor.bytes.data();
    matrix_.scales.type = tensor.dtype;
    matrix_.scales_name = where(suffix);
    return tensor;
  }

  int64_t row_blocks() const { return divided_up(matrix_.rows, matrix_.block_rows); }
  int64_t col_blocks() const { return divided_up(matrix_.cols, matrix_.block_cols); }

  // Sets which elements share a scale. `suffix` names the tensor for an error line.
  void set_blocks(const char* suffix, Granularity granularity) {
    matrix_.block_rows = granularity == Granularity::kTensor ? matrix_.rows : 1;
    matrix_.block_cols = matrix_.cols;
    if (granularity == Granularity::kBlock) matrix_.block_rows = scheme_.block_rows;
    if (granularity == Granularity::kBlock || granularity == Granularity::kGroup)
      matrix_.block_cols = scheme_.block_cols;
    if (granularity == Granularity::kGroup && matrix_.cols % matrix_.block_cols != 0)
      fail(suffix,
           fmt::format("the group size {} does not divide its {} columns", matrix_.block_cols, matrix_.cols));
  }

  // Scales [row blocks, column blocks].
  void read_row_major_scales(const char* suffix, const char* weight) {
    const TensorView* tensor = find(suffix);
    Granularity granularity = scheme_.granularity;
    if (granularity == Granularity::kTensorOrRow) {
      const bool one = tensor == nullptr || tensor->bytes.size() == dtype_bytes(tensor->dtype);
      granularity = one ? Granularity::kTensor : Granularity::kRow;
    }
    set_blocks(weight, granularity);
    const Shape all = {row_blocks(), col_blocks()};
    if (granularity == Granularity::kTensor) {
      required_scales(suffix, {Shape{1}, Shape{}, all});
    } else if (granularity == Granularity::kRow) {
      required_scales(suffix, {all, Shape{matrix_.rows}});
    } else {
      required_scales(suffix, {all});
    }
    matrix_.scales.row_stride = col_blocks();
    matrix_.scales.col_stride = 1;
  }

  void read_scaled() {
    const bool is_float = matrix_.type == CodeType::kE4M3;
    const TensorView& weight = required("weight", {is_float ? StoredType::kF8E4M3 : StoredType::kI8},
                                        {Shape{matrix_.rows, matrix_.cols}});
    matrix_.codes = byte_codes(weight.bytes.data(), matrix_.rows, matrix_.cols);
    matrix_.codes_name = where("weight");
    // DeepSeek's name for the same factor.
    const bool inverse = find("weight_scale_inv") != nullptr;
    if (inverse && find("weight_scale") != nullptr)
      fail("weight_scale_inv", "found weight_scale, too; expected one of them");
    read_row_major_scales(inverse ? "weight_scale_inv" : "weight_scale", "weight");
    if (!scheme_.has_zero_points) return;
    const Shape all = {row_blocks(), col_blocks()};
    const TensorView& zeros =
        all == Shape{1, 1} ? required("weight_zero_point", {StoredType::kI8}, {Shape{1}, Shape{}, all})
                           : required("weight_zero_point", {StoredType::kI8}, {all, Shape{all[0] * all[1]}});
    set_zeros(byte_codes(zeros.bytes.data(), row_blocks(), col_blocks()), "weight_zero_point");
  }

  void set_zeros(const PackedCodes& stored, const char* suffix) {
    matrix_.zeros.stored = stored;
    matrix_.zeros_name = where(suffix);
  }

  void read_packed() {
    const int64_t count = kWordBits / scheme_.bits();
    const TensorView& words =
        required("weight_packed", {StoredType::kI32}, {Shape{matrix_.rows, divided_up(matrix_.cols, count)}});
    matrix_.codes = word_codes(words.bytes.data(), scheme_.bits(), matrix_.rows, matrix_.cols,
                               /*along_rows=*/false, /*transposed=*/false);
    matrix_.codes_name = where("weight_packed");
    check_stated_shape();
    read_row_major_scales("weight_scale", "weight_packed");
    if (scheme_.has_zero_points) {
      const TensorView& zeros = required("weight_zero_point", {StoredType::kI32},
                                         {Shape{divided_up(matrix_.rows, count), col_blocks()}});
      set_zeros(word_codes(zeros.bytes.data(), scheme_.bits(), matrix_.rows, col_blocks(),
                           /*along_rows=*/true, /*transposed=*/false),
                "weight_zero_point");
    } else {
      matrix_.zeros.constant = 1 << (scheme_.bits() - 1);
    }
    if (find("weight_g_idx") != nullptr) read_column_groups("weight_g_idx");
  }

  // weight_shape holds [rows, columns].
  void check_stated_shape() {
    const TensorView& tensor = required("weight_shape", {StoredType::kI64, StoredType::kI32}, {Shape{2}});
    Shape stated;
    for (size_t i = 0; i < 2; ++i) {
      int64_t wide = 0;
      int32_t narrow = 0;
      if (tensor.dtype == StoredType::kI64) {
        std::memcpy(&wide, tensor.bytes.data() + i * sizeof wide, sizeof wide);
      } else {
        std::memcpy(&narrow, tensor.bytes.data() + i * sizeof narrow, sizeof narrow);
        wide = narrow;
      }
      stated.push_back(wide);
    }
    if (const Shape expected = {matrix_.rows, matrix_.cols}; stated != expected)
      fail("weight_shape",
           fmt::format("states {}, expected {} by config.json", shape_text(stated), shape_text(expected)));
  }

  // Scales and zero points of GPTQ and AWQ, [column blocks, rows].
  void read_transposed_scales() {
    set_blocks("qweight", scheme_.granularity);
    required_scales("scales", {Shape{col_blocks(), matrix_.rows}});
    matrix_.scales.row_stride = 1;
    matrix_.scales.col_stride = matrix_.rows;
    const int64_t count = kWordBits / scheme_.bits();
    const TensorView& zeros =
        required("qzeros", {StoredType::kI32}, {Shape{col_blocks(), matrix_.rows / count}});
    set_zeros(word_codes(zeros.bytes.data(), scheme_.bits(), matrix_.rows, col_blocks(), /*along_rows=*/true,
                         /*transposed=*/true),
              "qzeros");
  }

  // Both formats pack the rows of zero points into words, without a remainder.
  void require_whole_words(const char* dimension, int64_t size) {
    const int64_t count = kWordBits / scheme_.bits();
    if (size % count != 0)
      fail("qweight", fmt::format("the matrix has {} {}; expected a multiple of {}", size, dimension, count));
  }

  void read_gptq() {
    const int64_t count = kWordBits / scheme_.bits();
    require_whole_words("columns", matrix_.cols);
    require_whole_words("rows", matrix_.rows);
    const TensorView& words =
        required("qweight", {StoredType::kI32}, {Shape{matrix_.cols / count, matrix_.rows}});
    matrix_.codes = word_codes(words.bytes.data(), scheme_.bits(), matrix_.rows, matrix_.cols,
                               /*along_rows=*/false, /*transposed=*/true);
    matrix_.codes_name = where("qweight");
    read_transposed_scales();
    if (scheme_.zeros_less_one) {
      constexpr uint32_t kOneInNibbles = 0x11111111, kOneInBytes = 0x01010101;
      matrix_.zeros.stored->addend = scheme_.bits() == 4 ? kOneInNibbles : kOneInBytes;
      matrix_.zeros.refuses_largest = !scheme_.zeros_borrow;
    }
    if (scheme_.needs_g_idx || find("g_idx") != nullptr) read_column_groups("g_idx");
  }

  void read_awq() {
    require_whole_words("rows", matrix_.rows);
    const int64_t count = kWordBits / scheme_.bits();
    const TensorView& words =
        required("qweight", {StoredType::kI32}, {Shape{matrix_.cols, matrix_.rows / count}});
    matrix_.codes = word_codes(words.bytes.data(), scheme_.bits(), matrix_.rows, matrix_.cols,
                               /*along_rows=*/true, /*transposed=*/true);
    matrix_.codes.order = CodeOrder::kAwq;
    matrix_.codes_name = where("qweight");
    read_transposed_scales();
    matrix_.zeros.stored->order = CodeOrder::kAwq;
  }

  // The group of each column. compressed-tensors writes -1 for all columns if they are in sequence.
  void read_column_groups(const char* suffix) {
    const TensorView& tensor = required(suffix, {StoredType::kI32}, {Shape{matrix_.cols}});
    std::vector<int32_t> groups(static_cast<size_t>(matrix_.cols));
    std::memcpy(groups.data(), tensor.bytes.data(), tensor.bytes.size());
    if (std::ranges::all_of(groups, [](int32_t group) { return group == -1; })) return;
    bool in_sequence = true;
    for (int64_t col = 0; col < matrix_.cols; ++col) {
      const int32_t group = groups[static_cast<size_t>(col)];
      if (group < 0 || group >= col_blocks())
        fail(suffix, fmt::format("element {}: found {}; limit: 0 to {}", col, group, col_blocks() - 1));
      in_sequence = in_sequence && group == col / matrix_.block_cols;
    }
    if (!in_sequence) matrix_.block_of_col = std::move(groups);
  }

  const Checkpoint& checkpoint_;
  const std::string module_;
  const WeightScheme& scheme_;
  QuantisedMatrix matrix_;
  std::vector<std::string> tensors_;
};

}  // namespace

std::string module_of(const std::string& weight) {
  return weight.ends_with(kWeightSuffix) ? weight.substr(0, weight.size() - kWeightSuffix.size()) : weight;
}

bool has_packed_weight(const Checkpoint& checkpoint, const std::string& module) {
  return checkpoint.contains(module + ".qweight") || checkpoint.contains(module + ".weight_packed");
}

std::optional<FoundMatrix> find_quantised_matrix(const Checkpoint& checkpoint,
                                                 const Quantisation& quantisation, const WeightSpec& spec,
                                                 const std::string& name) {
  if (spec.kind != WeightKind::kMatrix) return std::nullopt;
  const std::string module = module_of(name);
  const WeightScheme* scheme = quantisation.scheme_of(module);
  const bool packed = has_packed_weight(checkpoint, module);
  const TensorView* plain = checkpoint.contains(name) ? &checkpoint.tensor(name) : nullptr;
  if (scheme == nullptr) {
    if (!packed && (plain == nullptr || !is_quantised(plain->dtype))) return std::nullopt;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: module {}: stored quantised, although {} leaves it out", checkpoint.source(),
                            shown(module), quantisation.ignored.where()));
  }
  const bool dense = !packed && plain != nullptr && is_dense(plain->dtype);
  if (dense && !quantisation.targets_are_complete) return std::nullopt;
  return MatrixReader(checkpoint, module, spec, *scheme).read();
}

}  // namespace serval
