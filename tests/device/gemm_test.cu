// The tile stream (instructions/product/orders/sm90/tile_stream.cuh) in the interpreter, without a model.
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/device/gemm_isa.cuh"
#include "tests/device/toy_program.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

using namespace serval::testing;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint32_t kSms = 3;
constexpr uint32_t kImageRows = 512;
constexpr uint32_t kSquaresCols = device::tile_stream::kSquaresCols;

struct Sizes {
  uint32_t outputs;  // rows of the weights
  uint32_t cols;
  uint32_t rows;  // in a pass
};

std::vector<float> random_values(size_t n, uint32_t seed, float scale) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> values(-scale, scale);
  std::vector<float> out(n);
  for (float& v : out) v = bf16_to_float(float_to_bf16(values(engine)));
  return out;
}

std::vector<float> positive_values(size_t n, uint32_t seed, float scale) {
  std::vector<float> out = random_values(n, seed, scale);
  for (float& v : out) v = std::abs(v) + 1;
  return out;
}

std::vector<uint16_t> page_images(const std::vector<float>& weights, uint32_t outputs, uint32_t cols) {
  std::vector<uint16_t> image(page_image::bytes(outputs, cols) / sizeof(uint16_t));
  for (uint32_t r = 0; r < outputs; ++r) {
    for (uint32_t c = 0; c < cols; ++c) {
      const uint32_t panel = c / page_image::kPanelCols;
      const uint64_t offset = page_image::page_offset(cols, r / kUnitRows, panel) +
                              page_image::element_offset(page_image::half_cols(cols, panel), r % kUnitRows,
                                                         c % page_image::kPanelCols);
      image[offset / sizeof(uint16_t)] = float_to_bf16(weights[size_t{r} * cols + c]);
    }
  }
  return image;
}

std::vector<uint16_t> slab_images(const std::vector<float>& values, uint32_t rows, uint32_t cols) {
  std::vector<uint16_t> image(slab_image::bytes(kImageRows, cols) / sizeof(uint16_t));
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t c = 0; c < cols; ++c)
      image[slab_image::offset(kImageRows, cols, r, c) / sizeof(uint16_t)] =
          float_to_bf16(values[size_t{r} * cols + c]);
  }
  return image;
}
float from_image(const std::vector<uint16_t>& image, uint32_t cols, uint32_t row, uint32_t col) {
  return bf16_to_float(image[slab_image::offset(kImageRows, cols, row, col) / sizeof(uint16_t)]);
}

double dot(const float* a, const float* b, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
  return sum;
}

template <class Config>
std::unique_ptr<DeviceInterpreter> interpreter_of(const Program& program, const ToyMemory& memory) {
  DeviceOptions options;
  options.stall_timeout_s = 1;
  return std::make_unique<DeviceInterpreter>(program, gemm_isa<Config>(), memory.bound(), options);
}

// State for a launch of `passes` passes in which all rows are active.
void write_state(const Program& program, ToyMemory& memory, uint32_t passes) {
  memory.write(*program.find_tensor(state_tensor::kControl),
               std::vector<PassControl>{{0, passes, kKeepRunning, 0}});
  memory.write(*program.find_tensor(state_tensor::kRows),
               std::vector<PassRow>(program.limits.rows, PassRow{.active = 1}));
}

// A program of one matrix, with tiles of outputs and tokens distributed over a few SMs, and its results.
class Gemm {
 public:
  explicit Gemm(const Sizes& sizes)
      : sizes_(sizes), input_(random_values(size_t{sizes.rows} * sizes.cols, 1, 1)) {}

  template <class Config>
  std::vector<float> add_to_residual(const std::vector<float>& weights, const std::vector<float>& residual,
                                     const std::vector<float>& norm) {
    begin();
    const TensorId w = add_weights();
    const TensorId x = toy_->add_vector(slab_image::bytes(kImageRows, sizes_.cols));
    const TensorId n = toy_->add_vector(sizes_.outputs * sizeof(uint16_t));
    const TensorId r =
        toy_->add_tensor("residual", kImageRows, sizes_.outputs, TensorKind::kActivation, DType::kF32);
    weighted_ = toy_->add_vector(slab_image::bytes(kImageRows, sizes_.outputs));
    squares_ = toy_->add_vector(size_t{kImageRows} * sizes_.outputs / kSquaresCols * sizeof(float));
    add_tiles<Config>(device::tile_stream::kTileUnits,
                      [&](uint32_t sm, uint32_t unit, uint32_t first, uint32_t end) {
                        toy_->add(sm, static_cast<uint16_t>(GemmOpcode::kResidual),
                                  GemmResidual{w, x, n, r, weighted_, squares_, unit,
                                               std::min(kTileUnits, sizes_.outputs / kUnitRows - unit), first,
                                               end - first, sizes_.cols, sizes_.outputs},
                                  {{}, {{done_}}});
                      });
    bind<Config>();
    write_weights(w, weights);
    memory_->write(x, slab_images(input_, sizes_.rows, sizes_.cols));
    memory_->write(r, residual);
    std::vector<uint16_t> norms;
    for (const float v : norm) norms.push_back(float_to_bf16(v));
    memory_->write(n, norms);
    run();
    return memory_->read<float>(r, size_t{sizes_.rows} * sizes_.outputs);
  }

  // Uses tiles of up to `units` units of each matrix.
  template <class Config>
  std::vector<uint16_t> silu(const std::vector<float>& gate, const std::vector<float>& up,
                             const std::vector<float>& squares,
                             uint32_t units = device::tile_stream::kPairUnits) {
    const GatedProduct t = add_gated_product<Config>(units);
    bind<Config>();
    write_weights(t.gate, gate);
    write_weights(t.up, up);
    memory_->write(t.input, slab_images(input_, sizes_.rows, sizes_.cols));
    memory_->write(t.squares, squares);
    run();
    return memory_->read<uint16_t>(t.output,
                                   slab_image::bytes(kImageRows, sizes_.outputs) / sizeof(uint16_t));
  }

  // Runs a program whose last instruction waits for one tile more than there are.
  template <class Config>
  std::string fault_of_a_missing_tile() {
    add_gated_product<Config>(device::tile_stream::kPairUnits);
    bind<Config>([&] { ++program_.waits.front().threshold; });
    return fault_of_launch();
  }
  // Runs a program in which an epilogue never ends.
  template <class Config>
  std::string fault_of_a_hang(uint32_t units) {
    add_gated_product<Config>(units, true);
    bind<Config>();
    return fault_of_launch();
  }

  // Launches that fail: after its tiles each SM has a record with an unknown opcode, which its controller
  // finds while products are running.
  template <class Config>
  void give_up(uint32_t launches, uint32_t units) {
    constexpr uint16_t kNoOpcode = 77;
    add_gated_product<Config>(units);
    for (uint32_t sm = 0; sm < kSms; ++sm)
      toy_->add(sm, kNoOpcode, Tick{toy_->control, toy_->host_stop}, {{}, {{done_}}});
    bind<Config>();
    for (uint32_t launch = 0; launch < launches; ++launch) {
      write_state(program_, *memory_, 1);
      EXPECT_THROW(interpreter_->run({sizes_.rows, 1, sizes_.rows}, {}), Error);
    }
  }

  const std::vector<float>& input() const { return input_; }
  std::vector<uint16_t> weighted() const {
    return memory_->read<uint16_t>(weighted_,
                                   slab_image::bytes(kImageRows, sizes_.outputs) / sizeof(uint16_t));
  }
  std::vector<float> squares() const {
    return memory_->read<float>(squares_, size_t{sizes_.rows} * sizes_.outputs / kSquaresCols);
  }

 private:
  void begin() {
    toy_ = std::make_unique<ToyProgram>(kSms, QueueKind::kPerSm, kImageRows);
    done_ = toy_->add_counter();
    gate_ = toy_->add_counter();
  }
  template <class Config, class Add>
  void add_tiles(uint32_t units, Add&& add) {
    uint32_t records = 0;
    for (uint32_t first = 0; first < sizes_.rows; first += Config::kTileTokens) {
      const uint32_t end = std::min(sizes_.rows, first + Config::kTileTokens);
      for (uint32_t unit = 0; unit < sizes_.outputs / kUnitRows; unit += units)
        add(records++ % kSms, unit, first, end);
    }
    toy_->add(0, static_cast<uint16_t>(GemmOpcode::kTick), Tick{toy_->control, toy_->host_stop},
              {{{done_, records, 0xffff}}, {{gate_}}});
  }
  std::string fault_of_launch() {
    write_state(program_, *memory_, 1);
    try {
      interpreter_->run({sizes_.rows, 1, sizes_.rows}, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no fault";
  }
  struct GatedProduct {
    TensorId gate, up, input, squares, output;
  };
  template <class Config>
  GatedProduct add_gated_product(uint32_t units, bool hangs = false) {
    begin();
    const GatedProduct t{add_weights(), add_weights(),
                         toy_->add_vector(slab_image::bytes(kImageRows, sizes_.cols)),
                         toy_->add_vector(size_t{kImageRows} * sizes_.cols / kSquaresCols * sizeof(float)),
                         toy_->add_vector(slab_image::bytes(kImageRows, sizes_.outputs))};
    add_tiles<Config>(units, [&](uint32_t sm, uint32_t unit, uint32_t first, uint32_t end) {
      const uint32_t count = std::min(units, sizes_.outputs / kUnitRows - unit);
      toy_->add(sm, static_cast<uint16_t>(GemmOpcode::kSilu),
                GemmSilu{t.gate, t.up, t.input, t.squares, t.output, unit, count, first, end - first,
                         sizes_.cols, sizes_.outputs, hangs ? 1U : 0U},
                {{}, {{done_}}});
    });
    return t;
  }
  template <class Config>
  void bind(const std::function<void()>& change = {}) {
    program_ = toy_->finish(gate_);
    if (change) change();
    memory_ = std::make_unique<ToyMemory>(program_);
    interpreter_ = interpreter_of<Config>(program_, *memory_);
  }
  TensorId add_weights() {
    return toy_->add_tensor("weights." + std::to_string(weights_++), sizes_.outputs, sizes_.cols,
                            TensorKind::kWeight, DType::kBF16);
  }
  void write_weights(TensorId weights, const std::vector<float>& values) {
    memory_->write(weights, page_images(values, sizes_.outputs, sizes_.cols));
  }
  void run() {
    write_state(program_, *memory_, 1);
    ASSERT_EQ(interpreter_->run({sizes_.rows, 1, sizes_.rows}, {}), 1U);
  }

  Sizes sizes_;
  std::vector<float> input_;
  std::unique_ptr<ToyProgram> toy_;
  Program program_;
  std::unique_ptr<ToyMemory> memory_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
  uint32_t done_ = 0, gate_ = 0, weights_ = 0;
  TensorId weighted_, squares_;
};

// Whole and partial tiles of tokens; whole panels of columns, a short last panel, and an odd number of slabs.
const Sizes kAllSizes[] = {
    {128, 1024, 256}, {256, 2048, 300}, {256, 576, 77}, {128, 1152, 512}, {384, 1024, 1}};

// Inputs of a gated product: weights and sums of squares.
class GemmStream : public ::testing::TestWithParam<Sizes> {
 protected:
  const Sizes sizes = GetParam();
  const std::vector<float> gate = random_values(size_t{sizes.outputs} * sizes.cols, 2, 0.1F);
  const std::vector<float> up = random_values(size_t{sizes.outputs} * sizes.cols, 3, 0.1F);
  const std::vector<float> squares = positive_values(size_t{kImageRows} * sizes.cols / kSquaresCols, 4, 20);
  Gemm gemm{sizes};
};
// Inputs of a product that is added to a residual.
class GemmResidualStream : public ::testing::TestWithParam<Sizes> {
 protected:
  const Sizes sizes = GetParam();
  const std::vector<float> weights = random_values(size_t{sizes.outputs} * sizes.cols, 2, 0.1F);
  const std::vector<float> residual = random_values(size_t{kImageRows} * sizes.outputs, 3, 1);
  const std::vector<float> norm = random_values(sizes.outputs, 4, 2);
  Gemm gemm{sizes};
};
INSTANTIATE_TEST_SUITE_P(Sizes, GemmResidualStream, ::testing::ValuesIn(kAllSizes));
INSTANTIATE_TEST_SUITE_P(Sizes, GemmStream, ::testing::ValuesIn(kAllSizes));
// One and a half wide tiles.
INSTANTIATE_TEST_SUITE_P(HalfATile, GemmStream, ::testing::Values(Sizes{192, 640, 130}));

TEST_P(GemmResidualStream, AddsToTheResidualWhatTheProductsAddUpTo) {
  const std::vector<float> got = gemm.add_to_residual<Tokens256>(weights, residual, norm);
  const std::vector<uint16_t> weighted = gemm.weighted();
  const std::vector<float> squares = gemm.squares();
  for (uint32_t r = 0; r < sizes.rows; ++r) {
    double sum = 0;
    for (uint32_t c = 0; c < sizes.outputs; ++c) {
      const size_t at = size_t{r} * sizes.outputs + c;
      const double want = residual[at] + dot(&weights[size_t{c} * sizes.cols],
                                             &gemm.input()[size_t{r} * sizes.cols], sizes.cols);
      ASSERT_NEAR(got[at], want, 1e-4) << "row " << r << ", output " << c;
      ASSERT_EQ(from_image(weighted, sizes.outputs, r, c), bf16_to_float(float_to_bf16(got[at] * norm[c])));
      sum += double{got[at]} * got[at];
      if (c % kSquaresCols + 1 < kSquaresCols) continue;
      ASSERT_NEAR(squares[at / kSquaresCols], sum, 1e-4 * sum) << "row " << r << ", up to output " << c;
      sum = 0;
    }
  }
}

TEST_P(GemmStream, GatesWhatItNormalises) {
  const std::vector<uint16_t> got = gemm.silu<Tokens256>(gate, up, squares);
  const uint32_t groups = sizes.cols / kSquaresCols;
  for (uint32_t r = 0; r < sizes.rows; ++r) {
    double mean = 0;
    for (uint32_t i = 0; i < groups; ++i) mean += squares[size_t{r} * groups + i] / sizes.cols;
    const double scale = 1 / std::sqrt(mean + kGemmEpsilon);
    for (uint32_t c = 0; c < sizes.outputs; ++c) {
      const float* x = &gemm.input()[size_t{r} * sizes.cols];
      const double g = scale * dot(&gate[size_t{c} * sizes.cols], x, sizes.cols);
      const double u = scale * dot(&up[size_t{c} * sizes.cols], x, sizes.cols);
      const double want = g / (1 + std::exp(-g)) * u;
      ASSERT_NEAR(from_image(got, sizes.outputs, r, c), want, 0.005 * std::abs(want) + 1e-4)
          << "row " << r << ", output " << c;
    }
  }
}

TEST_P(GemmStream, WideTilesDoNotShow) {
  const std::vector<uint16_t> narrow = gemm.silu<Tokens64>(gate, up, squares);
  EXPECT_EQ(gemm.silu<Tokens64>(gate, up, squares, 2 * device::tile_stream::kPairUnits), narrow);
  EXPECT_EQ(gemm.silu<Tokens256>(gate, up, squares), narrow);
}

// The GPU must still be usable by the process.
void expect_products_as_ever(Gemm& gemm, const Sizes& sizes) {
  const std::vector<float> weights(size_t{sizes.outputs} * sizes.cols, 0.25F);
  const std::vector<float> squares(size_t{kImageRows} * sizes.cols / kSquaresCols, 1);
  EXPECT_EQ(gemm.silu<Tokens64>(weights, weights, squares), gemm.silu<Tokens256>(weights, weights, squares));
}

// Consumers that leave during products release pages and panels whose copies are in flight. These buffers
// must not be copied to again, and the block must stay until the copies are complete.
TEST(GemmFault, WhileProductsAreUnderWay) {
  const Sizes sizes{256, 8192, 300};
  Gemm gemm(sizes);
  gemm.give_up<Tokens64>(100, device::tile_stream::kPairUnits);
  gemm.give_up<Tokens64>(100, 2 * device::tile_stream::kPairUnits);
  gemm.give_up<Tokens128>(100, device::tile_stream::kPairUnits);
  gemm.give_up<Tokens256>(100, device::tile_stream::kPairUnits);
  expect_products_as_ever(gemm, sizes);
}

// Only the tick on SM 0 waits.
TEST(GemmFault, TileThatIsMissing) {
  Gemm gemm({256, 1024, 64});
  EXPECT_THAT(gemm.fault_of_a_missing_tile<Tokens64>(),
              AllOf(HasSubstr("SM 0"), HasSubstr("tick"), HasSubstr("counter 0"), HasSubstr("4 of 5")));
}

// Meanwhile, pages and panels for the next tiles of tokens are loaded or in flight.
TEST(GemmFault, TileThatIsNeverFinished) {
  const Sizes sizes{256, 8192, 300};
  Gemm gemm(sizes);
  const auto is_named = AllOf(HasSubstr("gemm_silu"), HasSubstr("its consumers do not finish"));
  EXPECT_THAT(gemm.fault_of_a_hang<Tokens64>(device::tile_stream::kPairUnits), is_named);
  EXPECT_THAT(gemm.fault_of_a_hang<Tokens64>(2 * device::tile_stream::kPairUnits), is_named);
  EXPECT_THAT(gemm.fault_of_a_hang<Tokens128>(device::tile_stream::kPairUnits), is_named);
  EXPECT_THAT(gemm.fault_of_a_hang<Tokens256>(device::tile_stream::kPairUnits), is_named);
  expect_products_as_ever(gemm, sizes);
}

// Rings of GEMMs, each on its own SM, that pass a tile on (docs/memory_model.md). Each residual is 1
// everywhere, or -1. Each GEMM adds twice the value that its predecessor has stored in this pass; the first
// one subtracts twice the value that the last one stored in the previous pass. So all signs flip with each
// pass, and a value that is late or is read too early changes all later numbers.
template <class Config>
class GemmRings {
 public:
  GemmRings() : toy_(kRings * kHops, QueueKind::kPerSm, kImageRows) {
    const TensorId norm = toy_.add_vector(kWidth * sizeof(uint16_t));
    const TensorId adds = add_weights("adds"), takes = add_weights("takes");
    const uint32_t gate = toy_.add_counter(), all = toy_.add_counter();
    for (uint32_t ring = 0; ring < kRings; ++ring) {
      std::vector<TensorId> tiles;
      for (uint32_t hop = 0; hop < kHops; ++hop)
        tiles.push_back(toy_.add_vector(slab_image::bytes(kImageRows, kWidth)));
      first_tiles_.push_back(tiles.front());
      uint32_t before = 0;
      for (uint32_t hop = 0; hop < kHops; ++hop) {
        const std::string name = "residual." + std::to_string(residuals_.size());
        residuals_.push_back(toy_.add_tensor(name, kImageRows, kWidth, TensorKind::kActivation, DType::kF32));
        const TensorId squares = toy_.add_vector(size_t{kImageRows} * kWidth / kSquaresCols * sizeof(float));
        const uint32_t done = toy_.add_counter();
        const std::vector<Wait> waits =
            hop == 0 ? std::vector<Wait>{} : std::vector<Wait>{{before, 1, 0xffff}};
        toy_.add(
            ring * kHops + hop, static_cast<uint16_t>(GemmOpcode::kResidual),
            GemmResidual{hop == 0 ? takes : adds, tiles[hop], norm, residuals_.back(),
                         tiles[(hop + 1) % kHops], squares, 0, kWidth / kUnitRows, 0, kRows, kWidth, kWidth},
            {waits, {{done}, {all}}});
        before = done;
      }
    }
    toy_.add(0, static_cast<uint16_t>(GemmOpcode::kTick), Tick{toy_.control, toy_.host_stop},
             {{{all, kRings * kHops, 0xffff}}, {{gate}}});
    bind(norm, adds, takes, gate);
  }

  void expect_signs_after(uint32_t passes) {
    write_state(program_, *memory_, passes);
    ASSERT_EQ(interpreter_->run({kRows, passes, kRows}, {}), passes);
    passes_ += passes;
    const float sign = passes_ % 2 == 0 ? 1.0F : -1.0F;
    for (const TensorId residual : residuals_)
      ASSERT_THAT(memory_->read<float>(residual, size_t{kRows} * kWidth), Each(sign));
  }

  static constexpr uint32_t kRings = 32, kHops = 4, kHandOversOfPass = kRings * kHops;

 private:
  static constexpr uint32_t kWidth = 128, kRows = Config::kTileTokens;

  TensorId add_weights(const std::string& name) {
    return toy_.add_tensor(name, kWidth, kWidth, TensorKind::kWeight, DType::kBF16);
  }
  static std::vector<uint16_t> diagonal(float value) {
    std::vector<float> weights(size_t{kWidth} * kWidth);
    for (uint32_t i = 0; i < kWidth; ++i) weights[size_t{i} * kWidth + i] = value;
    return page_images(weights, kWidth, kWidth);
  }
  void bind(TensorId norm, TensorId adds, TensorId takes, uint32_t gate) {
    program_ = toy_.finish(gate);
    memory_ = std::make_unique<ToyMemory>(program_);
    interpreter_ = interpreter_of<Config>(program_, *memory_);
    memory_->write(norm, std::vector<uint16_t>(kWidth, float_to_bf16(1)));
    memory_->write(adds, diagonal(2));
    memory_->write(takes, diagonal(-2));
    const std::vector<float> ones(size_t{kImageRows} * kWidth, 1);
    for (const TensorId tile : first_tiles_) memory_->write(tile, slab_images(ones, kRows, kWidth));
    for (const TensorId residual : residuals_) memory_->write(residual, ones);
  }

  ToyProgram toy_;
  std::vector<TensorId> first_tiles_, residuals_;
  Program program_;
  std::unique_ptr<ToyMemory> memory_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
  uint32_t passes_ = 0;
};

// The consumers' stores, the storer's signal, an acquire, then bulk copies and tensor copies of the stored
// tile. More than 10^6 transfers.
template <class Config>
void expect_tiles_handed_on() {
  constexpr uint32_t kPassesOfLaunch = 2'003, kLaunches = 4;  // odd, so the sign changes
  static_assert(kLaunches * kPassesOfLaunch * GemmRings<Config>::kHandOversOfPass >= 1'000'000);
  GemmRings<Config> rings;
  for (uint32_t launch = 0; launch < kLaunches; ++launch)
    ASSERT_NO_FATAL_FAILURE(rings.expect_signs_after(kPassesOfLaunch));
}
TEST(GemmLitmus, TilesOf64AreWholeBehindTheirCounter) {
  expect_tiles_handed_on<Tokens64>();
}
TEST(GemmLitmus, TilesOf128AreWholeBehindTheirCounter) {
  expect_tiles_handed_on<Tokens128>();
}
TEST(GemmLitmus, TilesOf256AreWholeBehindTheirCounter) {
  expect_tiles_handed_on<Tokens256>();
}

TEST_P(GemmResidualStream, TilesOfTokensDoNotShow) {
  const std::vector<float> large = gemm.add_to_residual<Tokens256>(weights, residual, norm);
  const std::vector<float> large_squares = gemm.squares();
  EXPECT_EQ(gemm.add_to_residual<Tokens128>(weights, residual, norm), large);
  EXPECT_EQ(gemm.squares(), large_squares);
}

}  // namespace
}  // namespace serval
