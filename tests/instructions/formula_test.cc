// Compares each instruction with a plain evaluation of its formula in double, with DESIGN's rounding points,
// for random shapes and passes.
//
// The tolerance: products of bf16 numbers are exact in fp32, so only additions and a few single operations
// cause errors in an output. Each reference value has an error bound computed from its own terms (sum_error),
// which the output must meet. If an output is rounded to bf16, value and reference may be on different sides
// of the middle between two bf16 numbers. Then the output must be one of the numbers that the bound allows;
// these flips are counted, and they are rare enough for the NMSE to hold. The same may happen inside an
// instruction to an attention probability, see Attention below.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "gtest/gtest.h"

#include "instructions/common/residual.h"
#include "instructions/common/unit_softmax.h"
#include "instructions/sample/sampler.h"
#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/row_tiles.h"
#include "vm/state/attention.h"

namespace serval::testing {
namespace {

constexpr double kMostNmse = 1e-8;  // a flip of one of the largest outputs alone is 3.4e-9
constexpr double kMostSettledNmse =
    1e-12;                            // for fp32 outputs that do not depend on an uncertain rounding to bf16
constexpr double kMostFlips = 0.001;  // fraction of the bf16 outputs
constexpr double kUlp = 0x1p-23;      // of fp32, relative
// For instructions that do not depend on the context.
constexpr ShapeLimits kNarrow = {.max_kv_heads = 1, .max_context = 100};

// A reference value before any rounding, and the error bound of an fp32 evaluation.
struct Exact {
  double value = 0;
  double error = 0;
};

// Accumulates the comparison of all outputs of an instruction.
class Tally {
 public:
  void add(float got, const Exact& want) {
    const double off = std::abs(got - want.value);
    count(off <= want.error + std::abs(want.value) * kUlp, got, want);
    square_error_ += off * off;
    power_ += want.value * want.value;
  }
  void add_bf16(uint16_t bits, const Exact& want) {
    const double got = bf16_to_float(bits), nearest = round_to_bf16(want.value);
    const double error = want.error + std::abs(want.value) * kUlp;
    count(round_to_bf16(want.value - error) <= got && got <= round_to_bf16(want.value + error), got, want);
    power_ += nearest * nearest;
    if (got == nearest) return;
    ++flips_;
    square_error_ += (got - nearest) * (got - nearest);
  }
  void new_shape() { ++shapes_; }
  double nmse() const { return square_error_ / power_; }
  // Prints the figures and checks the limits.
  void finish(const char* name, double most_nmse = kMostNmse) const {
    const double flipped = static_cast<double>(flips_) / static_cast<double>(outputs_);
    const std::string over = shapes_ == 0 ? "" : std::to_string(shapes_) + " shapes, ";
    std::printf("[ figures  ] %s: %s%zu outputs, NMSE %.2g, share of bf16 flips %.2g\n", name, over.c_str(),
                outputs_, nmse(), flipped);
    EXPECT_EQ(wrong_, 0U) << name << ": first " << first_wrong_;
    EXPECT_LE(nmse(), most_nmse) << name;
    EXPECT_LE(flipped, kMostFlips) << name;
    EXPECT_GT(outputs_, 0U) << name;
  }

 private:
  void count(bool right, double got, const Exact& want) {
    ++outputs_;
    if (right) return;
    if (wrong_++ == 0) {
      char text[128];
      std::snprintf(text, sizeof text, "%.9g, exact %.9g, may be off by %.2g", got, want.value, want.error);
      first_wrong_ = text;
    }
  }

  size_t outputs_ = 0, flips_ = 0, wrong_ = 0;
  int shapes_ = 0;
  double square_error_ = 0, power_ = 0;
  std::string first_wrong_;
};

// Σ weights[k] x[k]; x contains bf16 numbers.
Exact dot(const uint16_t* weights, const std::vector<double>& x) {
  double sum = 0, magnitude = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const double term = bf16_to_float(weights[k]) * x[k];
    sum += term;
    magnitude += std::abs(term);
  }
  return {sum, sum_error(static_cast<uint32_t>(x.size()), magnitude)};
}

std::vector<double> widen(const uint16_t* from, size_t n) {
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = bf16_to_float(from[i]);
  return out;
}

// 1 / sqrt(mean square + epsilon) of a row, from the sums of squares of its units. Under the root: a sum of
// two, a lane's chain, five folds, a division and an addition; the root halves their relative error. Then the
// root and the reciprocal follow.
Exact exact_scale(const float* squares, uint32_t cols, float epsilon) {
  constexpr uint32_t kLanes = 32, kFolds = 5;
  const uint32_t units = cols / kUnitRows;
  double sum = 0;
  for (uint32_t u = 0; u < units; ++u) sum += squares[u];
  const double scale = 1 / std::sqrt(sum / cols + static_cast<double>(epsilon));
  const uint32_t chain = 1 + (units / 2 + kLanes - 1) / kLanes + kFolds;
  return {scale, rounding_error(chain + 2, scale) / 2 + rounding_error(2, scale)};
}

// The row that the projections after a norm multiply, as written by its writer, and the factor for its sums.
struct NormedRow {
  std::vector<double> x;
  Exact scale;
};

NormedRow normed_row(const Scene& s, uint32_t row) {
  const uint32_t hidden = s.shape.hidden;
  return {widen(s.bench.data<const uint16_t>(s.t.weighted) + size_t{row} * hidden, hidden),
          exact_scale(s.bench.data<const float>(s.t.squares) + size_t{row} * (hidden / kUnitRows), hidden,
                      s.shape.epsilon)};
}

Exact normed_dot(const uint16_t* weights, const NormedRow& row) {
  const Exact sum = dot(weights, row.x);
  const double value = sum.value * row.scale.value;
  return {value, sum.error * (row.scale.value + row.scale.error) + std::abs(sum.value) * row.scale.error +
                     rounding_error(1, std::abs(value))};
}

const uint16_t* weight_row(const Scene& s, TensorId weights, uint64_t row) {
  return s.bench.data<const uint16_t>(weights) + row * s.bench.tensor(weights).cols;
}

// Checks that bytes of `tensor` outside `expected` (element → changed) did not change.
void expect_untouched(const Scene& s, const std::vector<std::byte>& before, TensorId tensor,
                      const std::vector<uint8_t>& expected, const std::string& what) {
  const size_t size = size_of(s.bench.tensor(tensor).dtype);
  const std::vector<std::byte>& now = s.bench.memory[tensor.index];
  if (now == before) return;
  size_t touched = 0;
  for (size_t e = 0; e < expected.size(); ++e) {
    if (expected[e] == 0 && std::memcmp(&now[e * size], &before[e * size], size) != 0) ++touched;
  }
  EXPECT_EQ(touched, 0U) << what << " wrote to " << s.bench.tensor(tensor).name << " outside its rows";
}

// Draws shapes and passes, runs the whole stage in random parts onto poison, and calls `judge(scene, tally)`,
// which compares every output that the formula defines and returns the compared elements of each tensor.
// Expects that no other memory has changed.
template <class Judge>
void over_random_scenes(Opcode opcode, int shapes, const ShapeLimits& limits, Tally& tally, Judge&& judge) {
  for (int n = 0; n < shapes; ++n) {
    Random random(1000 * (static_cast<uint64_t>(opcode) + 1) + static_cast<uint64_t>(n));
    Scene s(random_shape(random, limits), random);
    SCOPED_TRACE("shape " + std::to_string(n) + ": " + s.shape.text());
    tally.new_shape();
    for (int pass = 0; pass < 2; ++pass) {
      s.new_pass(random);
      const Stage stage = s.stage(opcode);
      s.poison_outputs(stage);
      const std::vector<std::vector<std::byte>> before = s.bench.memory;
      s.bench.run(split(stage, random));
      Cover compared = empty_cover(s.bench);
      judge(s, before, tally, compared);
      for (uint32_t i = 0; i < before.size(); ++i) {
        expect_untouched(s, before[i], {i}, compared[i], stage.name());
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}
template <class Judge>
void over_random_scenes(Opcode opcode, int shapes, const ShapeLimits& limits, Judge&& judge) {
  Tally tally;
  over_random_scenes(opcode, shapes, limits, tally, judge);
  tally.finish(op_name(static_cast<uint16_t>(opcode)));
}

using Memory = std::vector<std::vector<std::byte>>;

// The three outputs of a residual's writer, separately: their magnitudes differ too much for one NMSE.
struct ResidualTally {
  Tally residual, weighted, squares;
  // The error bound of 4 operations: the square and the three additions of a unit's tree.
  void add_unit(const float* x, const uint16_t* norm, const uint16_t* weighted_to, float squares_to) {
    double sum = 0;
    for (uint32_t i = 0; i < kUnitRows; ++i) {
      sum += static_cast<double>(x[i]) * x[i];
      weighted.add_bf16(weighted_to[i], {static_cast<double>(x[i]) * bf16_to_float(norm[i]), 0});
    }
    squares.add(squares_to, {sum, rounding_error(4, sum)});
  }
  void finish(const std::string& name) const {
    weighted.finish((name + ", weighted").c_str());
    squares.finish((name + ", squares").c_str());
  }
};

// Values outside the range of real models: x and weights over 24 powers of two.
struct NormInput {
  explicit NormInput(Random& random) : x(random.between(1, 256) * kTileDim), norm(x.size()) {
    const double scale = std::exp2(random.real(-12, 12));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(random.real(-scale, scale));
      norm[i] = float_to_bf16(static_cast<float>(random.real(-2, 2)));
    }
  }
  std::vector<float> x;
  std::vector<uint16_t> norm;
};

struct Weighed {
  explicit Weighed(const NormInput& in) : weighted(in.x.size()), squares(in.x.size() / kUnitRows) {
    apply_norm(in.x.data(), in.norm.data(), in.x.size(), kUnitRows, weighted.data(), squares.data());
  }
  std::vector<uint16_t> weighted;
  std::vector<float> squares;
};

TEST(Weigh, LeavesProductsAsBf16AndTheSquaresOfEveryUnit) {
  ResidualTally tally;
  Random random(1);
  for (int n = 0; n < 300; ++n) {
    const NormInput in(random);
    const Weighed out(in);
    for (size_t u = 0; u < out.squares.size(); ++u) {
      const size_t first = u * kUnitRows;
      tally.add_unit(&in.x[first], &in.norm[first], &out.weighted[first], out.squares[u]);
    }
  }
  tally.finish("apply_norm");
}

// In tile order, readers compute from sums of 8 squares the sums of 64 that programs of tiles have.
TEST(SquaresOfGemm, AreTheSumsOf64SquaresToTheBit) {
  Random random(4);
  for (int n = 0; n < 300; ++n) {
    NormInput in(random);
    const size_t cols = (in.x.size() + kSquareColsOfTiles - 1) / kSquareColsOfTiles * kSquareColsOfTiles;
    in.x.resize(cols, 0.5F);
    in.norm.resize(cols);
    std::vector<uint16_t> weighted(cols);
    std::vector<float> expected(cols / kSquareColsOfTiles);
    apply_norm(in.x.data(), in.norm.data(), cols, kSquareColsOfTiles, weighted.data(), expected.data());
    EXPECT_EQ(squares_of_gemm(Weighed(in).squares.data(), cols), expected);
  }
}

TEST(RmsScale, IsOneOverTheRootOfTheMeanSquare) {
  Tally tally;
  Random random(2);
  for (int n = 0; n < 3000; ++n) {
    const NormInput in(random);
    const auto cols = static_cast<uint32_t>(in.x.size());
    const Weighed out(in);
    for (const float epsilon : {1e-5F, 1e-3F}) {
      tally.add(rms_scale(out.squares.data(), cols, kUnitRows, epsilon),
                exact_scale(out.squares.data(), cols, epsilon));
    }
  }
  tally.finish("rms_scale");
}

// apply_norm() and rms_scale() together, compared with the norm of the residual: there is one rounding to
// bf16 between them.
TEST(RmsScale, CompletesWeighedRowsToTheRmsNorm) {
  constexpr double kHalfUlpOfBf16 = 0x1p-8;  // relative, at most
  constexpr float kEpsilon = 1e-5F;
  double square_error = 0, power = 0;
  Random random(3);
  for (int n = 0; n < 300; ++n) {
    const NormInput in(random);
    const Weighed out(in);
    double squares = 0;
    for (const float x : in.x) squares += static_cast<double>(x) * x;
    const double root = std::sqrt(squares / static_cast<double>(in.x.size()) + static_cast<double>(kEpsilon));
    const double scale = rms_scale(out.squares.data(), in.x.size(), kUnitRows, kEpsilon);
    for (size_t i = 0; i < in.x.size(); ++i) {
      const double want = in.x[i] / root * bf16_to_float(in.norm[i]);
      const double off = std::abs(bf16_to_float(out.weighted[i]) * scale - want);
      ASSERT_LE(off, std::abs(want) * (kHalfUlpOfBf16 + 16 * kUlp));
      square_error += off * off;
      power += want * want;
    }
  }
  EXPECT_LE(square_error / power, kHalfUlpOfBf16 * kHalfUlpOfBf16 / 3);
}

// Compares the data for the residual's next readers in row r with the current residual.
void judge_for_readers(const Scene& s, uint32_t r, ResidualTally& tally, Cover& compared) {
  for (uint32_t c = 0; c < s.shape.hidden; c += kUnitRows) {
    const uint64_t at = s.bench.element(s.t.residual, r, c), unit = at / kUnitRows;
    std::fill_n(&compared[s.t.weighted.index][at], kUnitRows, uint8_t{1});
    compared[s.t.squares.index][unit] = 1;
    tally.add_unit(s.bench.data<const float>(s.t.residual) + at, s.bench.data<const uint16_t>(s.t.norm) + c,
                   s.bench.data<const uint16_t>(s.t.weighted) + at,
                   s.bench.data<const float>(s.t.squares)[unit]);
  }
}

TEST(Embed, CopiesTheTokensRowOfTheTableAndWeighsIt) {
  ResidualTally tally;
  over_random_scenes(
      Opcode::kEmbed, 60, kNarrow, tally.residual,
      [&](const Scene& s, const Memory&, Tally& residual, Cover& compared) {
        for (const uint32_t r : s.active_rows()) {
          const uint16_t* from = weight_row(s, s.t.table, static_cast<uint64_t>(s.rows()[r].token));
          for (uint32_t c = 0; c < s.shape.hidden; ++c) {
            const uint64_t e = s.bench.element(s.t.residual, r, c);
            compared[s.t.residual.index][e] = 1;
            EXPECT_EQ(s.bench.data<const float>(s.t.residual)[e], bf16_to_float(from[c]));
            residual.add(s.bench.data<const float>(s.t.residual)[e], {bf16_to_float(from[c]), 0});
          }
          judge_for_readers(s, r, tally, compared);
        }
      });
  tally.residual.finish("embed");
  tally.finish("embed");
}

TEST(EmbedPush, BringsTheOwnerTheTokensRowOfTheTable) {
  over_random_scenes(
      Opcode::kEmbedPush, 40, kNarrow, [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        for (const uint32_t r : s.active_rows()) {
          const uint16_t* from = weight_row(s, s.t.table, static_cast<uint64_t>(s.rows()[r].token));
          for (uint32_t c = 0; c < s.shape.hidden; ++c) {
            const uint64_t at = s.bench.element(s.t.exchange, r, c);
            compared[s.t.exchange.index][at] = 1;
            tally.add(s.bench.number(s.t.exchange, at), {bf16_to_float(from[c]), 0});
          }
        }
      });
}

// RoPE of a head: rotates channel i together with channel i + head_dim / 2.
std::vector<Exact> rotated(const std::vector<Exact>& y, const float* cosines) {
  const size_t pairs = y.size() / 2;
  std::vector<Exact> out(y.size());
  const float* sines = cosines + pairs;
  for (size_t i = 0; i < pairs; ++i) {
    const Exact a = y[i], b = y[i + pairs];
    const double c = cosines[i], sn = sines[i];
    const double error = (std::abs(c) + std::abs(sn)) * std::max(a.error, b.error);
    const auto rounding = [&](double p, double q) { return (std::abs(p) + std::abs(q)) * kUlp; };
    out[i] = {a.value * c - b.value * sn, error + rounding(a.value * c, b.value * sn)};
    out[i + pairs] = {b.value * c + a.value * sn, error + rounding(b.value * c, a.value * sn)};
  }
  return out;
}

// Outputs of one head of a projection, with RoPE if `cosines` is given.
std::vector<Exact> head_outputs(const Scene& s, TensorId weights, uint32_t head, const NormedRow& x,
                                const float* cosines) {
  const uint32_t d = s.shape.head_dim;
  std::vector<Exact> y(d);
  for (uint32_t c = 0; c < d; ++c) y[c] = normed_dot(weight_row(s, weights, uint64_t{head} * d + c), x);
  return cosines == nullptr ? y : rotated(y, cosines);
}

// Compares what the pass's rows left in q and the caches. outputs(part, head, row, cosines) gives a head's
// outputs, with RoPE if `cosines` is given.
template <class Outputs>
void judge_heads(const Scene& s, Tally& tally, Cover& compared, Outputs&& outputs) {
  const uint32_t d = s.shape.head_dim;
  for (const uint32_t r : s.active_rows()) {
    const PassRow& row = s.rows()[r];
    const float* cosines = s.bench.data<const float>(s.t.rope) + size_t{row.position} * d;
    const uint64_t token = s.block_of(row, row.position) * kKvBlockTokens + row.position % kKvBlockTokens;
    const auto judge = [&](TensorId to, uint64_t at, const Exact& want) {
      compared[to.index][at] = 1;
      tally.add_bf16(s.bench.data<const uint16_t>(to)[at], want);
    };
    for (uint32_t h = 0; h < s.shape.q_heads; ++h) {
      const std::vector<Exact> q = outputs(QkvPart::kQ, h, r, cosines);
      for (uint32_t c = 0; c < d; ++c) judge(s.t.q, s.bench.element(s.t.q, r, h * d + c), q[c]);
    }
    for (uint32_t h = 0; h < s.shape.kv_heads; ++h) {
      const std::vector<Exact> k = outputs(QkvPart::kK, h, r, cosines);
      const std::vector<Exact> v = outputs(QkvPart::kV, h, r, nullptr);
      for (uint32_t c = 0; c < d; ++c) {
        judge(s.t.k_cache, s.bench.element(s.t.k_cache, h * d + c, token), k[c]);
        judge(s.t.v_cache, s.bench.element(s.t.v_cache, h * d + c, token), v[c]);
      }
    }
  }
}

// The weights of a projection.
TensorId projection(const Scene& s, QkvPart part) {
  return part == QkvPart::kQ ? s.t.wq : part == QkvPart::kK ? s.t.wk : s.t.wv;
}

TEST(QkvRope, IsTheRotatedProjectionOfTheNormalisedRow) {
  over_random_scenes(
      Opcode::kQkvRope, 24, {.max_hidden = 400, .max_kv_heads = 2},
      [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        judge_heads(s, tally, compared, [&](QkvPart part, uint32_t head, uint32_t r, const float* cosines) {
          return head_outputs(s, projection(s, part), head, normed_row(s, r), cosines);
        });
      });
}

// The part, head and channel of output `output` of a part's sums, in the order of the units.
struct Channel {
  QkvPart part;
  uint32_t head, channel;
};
Channel channel_of_output(const Scene& s, uint32_t output) {
  const uint32_t d = s.shape.head_dim, group_heads = s.shape.q_heads / s.shape.kv_heads;
  const uint32_t group = output / ((group_heads + 2) * d), in_group = output % ((group_heads + 2) * d);
  const uint32_t head = in_group / d, i = in_group % d;
  if (head == group_heads + 1) return {QkvPart::kV, group, i};
  // A unit of 8 has 4 pairs: first their first channels, then their second channels.
  const uint32_t channel = i / 8 * 4 + i % 4 + (i % 8 < 4 ? 0 : d / 2);
  if (head == group_heads) return {QkvPart::kK, group, channel};
  return {QkvPart::kQ, group * group_heads + head, channel};
}

// Several panels of columns, so that there are K splits.
constexpr ShapeLimits kPanels = {.max_hidden = 4200, .max_intermediate = 16, .max_kv_heads = 1};

TEST(ProjectPart, IsTheProjectionOfAPartOfTheColumns) {
  over_random_scenes(
      Opcode::kProjectPart, 10, kPanels, [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        const uint32_t outputs = (s.shape.q_heads + 2 * s.shape.kv_heads) * s.shape.head_dim;
        const TensorId to = s.t.projected_sums[s.projected_parts - 1];
        const ColumnRange cols = columns_of_part(s.shape.hidden, s.projected_part, s.projected_parts);
        for (const uint32_t r : s.active_rows()) {
          const std::vector<double> x =
              widen(s.bench.data<const uint16_t>(s.t.weighted) + size_t{r} * s.shape.hidden + cols.begin,
                    cols.count());
          for (uint32_t i = 0; i < outputs; ++i) {
            const Channel c = channel_of_output(s, i);
            const uint16_t* weights =
                weight_row(s, projection(s, c.part), uint64_t{c.head} * s.shape.head_dim + c.channel);
            const uint64_t at = s.bench.element(to, r, uint64_t{s.projected_part} * outputs + i);
            compared[to.index][at] = 1;
            tally.add(s.bench.data<const float>(to)[at], dot(weights + cols.begin, x));
          }
        }
      });
}

TEST(RopeParts, RotatesTheScaledSumOfTheParts) {
  over_random_scenes(
      Opcode::kRopeParts, 24, kPanels, [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        const uint32_t d = s.shape.head_dim, outputs = (s.shape.q_heads + 2 * s.shape.kv_heads) * d;
        const float* sums = s.bench.data<const float>(s.t.projected_sums[s.projected_parts - 1]);
        judge_heads(s, tally, compared, [&](QkvPart part, uint32_t head, uint32_t r, const float* cosines) {
          const Exact scale = normed_row(s, r).scale;
          std::vector<Exact> y(d);
          for (uint32_t i = 0; i < outputs; ++i) {
            const Channel c = channel_of_output(s, i);
            if (c.part != part || c.head != head) continue;
            double sum = 0, magnitude = 0;
            for (uint32_t p = 0; p < s.projected_parts; ++p) {
              const double of_part = sums[(size_t{r} * s.projected_parts + p) * outputs + i];
              sum += of_part;
              magnitude += std::abs(of_part);
            }
            const double error = rounding_error(s.projected_parts, magnitude), value = sum * scale.value;
            y[c.channel] = {value, error * (scale.value + scale.error) + std::abs(sum) * scale.error +
                                       rounding_error(1, std::abs(value))};
          }
          return cosines == nullptr ? y : rotated(y, cosines);
        });
      });
}

TEST(QkvProject, IsTheProjectionOfTheNormalisedRow) {
  over_random_scenes(Opcode::kQkvProject, 24, {.max_hidden = 400, .max_kv_heads = 2},
                     [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
                       for (const uint32_t r : s.active_rows()) {
                         const NormedRow x = normed_row(s, r);
                         uint64_t col = 0;
                         for (const TensorId w : {s.t.plain_wq, s.t.plain_wk, s.t.plain_wv}) {
                           for (uint64_t j = 0; j < s.bench.tensor(w).rows; ++j, ++col) {
                             const uint64_t at = s.bench.element(s.t.projected, r, col);
                             compared[s.t.projected.index][at] = 1;
                             tally.add(s.bench.data<const float>(s.t.projected)[at],
                                       normed_dot(weight_row(s, w, j), x));
                           }
                         }
                       }
                     });
}

// A head divided by the root of its mean square, times the weights. Under the root: the squares, the sum of a
// pair, a tree over the pairs, a division and an addition; the root halves their relative error. Then the
// root, the reciprocal and two products follow.
std::vector<Exact> normed_head(const float* head, const uint16_t* norm, uint32_t d, float epsilon) {
  double squares = 0;
  for (uint32_t c = 0; c < d; ++c) squares += static_cast<double>(head[c]) * head[c];
  const double scale = 1 / std::sqrt(squares / d + static_cast<double>(epsilon));
  const auto levels = static_cast<uint32_t>(std::bit_width(d) - 1);
  std::vector<Exact> out(d);
  for (uint32_t c = 0; c < d; ++c) {
    const double value = head[c] * scale * bf16_to_float(norm[c]);
    out[c] = {value, rounding_error(levels + 3, std::abs(value)) / 2 + rounding_error(4, std::abs(value))};
  }
  return out;
}

TEST(QkNormRope, RotatesNormalisedHeadsAndKeepsValues) {
  over_random_scenes(
      Opcode::kQkNormRope, 24, {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2},
      [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        const uint32_t d = s.shape.head_dim, q_heads = s.shape.q_heads, kv_heads = s.shape.kv_heads;
        for (const uint32_t r : s.active_rows()) {
          const PassRow& row = s.rows()[r];
          const float* cosines = s.bench.data<const float>(s.t.rope) + size_t{row.position} * d;
          const uint64_t token =
              s.block_of(row, row.position) * kKvBlockTokens + row.position % kKvBlockTokens;
          const auto head_at = [&](uint32_t head) {
            return s.bench.data<const float>(s.t.projected) +
                   s.bench.element(s.t.projected, r, uint64_t{head} * d);
          };
          const auto turned = [&](uint32_t head, TensorId norm) {
            return rotated(normed_head(head_at(head), s.bench.data<const uint16_t>(norm), d, s.shape.epsilon),
                           cosines);
          };
          const auto judge = [&](TensorId to, uint64_t at, const Exact& want) {
            compared[to.index][at] = 1;
            tally.add_bf16(s.bench.data<const uint16_t>(to)[at], want);
          };
          for (uint32_t h = 0; h < q_heads; ++h) {
            const std::vector<Exact> q = turned(h, s.t.q_norm);
            for (uint32_t c = 0; c < d; ++c) judge(s.t.q, s.bench.element(s.t.q, r, h * d + c), q[c]);
          }
          for (uint32_t h = 0; h < kv_heads; ++h) {
            const std::vector<Exact> k = turned(q_heads + h, s.t.k_norm);
            const float* v = head_at(q_heads + kv_heads + h);
            for (uint32_t c = 0; c < d; ++c) {
              judge(s.t.k_cache, s.bench.element(s.t.k_cache, h * d + c, token), k[c]);
              judge(s.t.v_cache, s.bench.element(s.t.v_cache, h * d + c, token), {v[c], 0});
            }
          }
        }
      });
}

// Result of one query head for one leaf of keys.
struct LeafResult {
  Exact largest, sum;
  std::vector<Exact> values;  // [head_dim]
  // A probability is so close to the middle of two bf16 numbers that fp32 may round it either way. The bound
  // on `values` allows for that; leaves without such a probability must meet a separate NMSE.
  bool toss_up = false;
};

LeafResult leaf_of(const Scene& s, const PassRow& row, uint32_t r, uint32_t q_head, uint32_t leaf) {
  const uint32_t d = s.shape.head_dim, begin = leaf * kLeafTokens;
  const uint32_t count = std::min(kLeafTokens, row.position + 1 - begin);
  const uint32_t kv_head = q_head / (s.shape.q_heads / s.shape.kv_heads);
  const double scale = 1 / std::sqrt(static_cast<float>(d));
  const std::vector<double> q =
      widen(s.bench.data<const uint16_t>(s.t.q) + (size_t{r} * s.shape.q_heads + q_head) * d, d);
  const auto cached = [&](TensorId cache, uint32_t token) {
    const uint64_t block = s.block_of(row, begin + token);
    const uint64_t at = (block * s.shape.kv_heads + kv_head) * kKvBlockTokens + token % kKvBlockTokens;
    return s.bench.data<const uint16_t>(cache) + at * d;
  };
  LeafResult out;
  std::vector<Exact> score(count);
  for (uint32_t t = 0; t < count; ++t) {
    const Exact product = dot(cached(s.t.k_cache, t), q);
    score[t] = {product.value * scale, product.error * scale + std::abs(product.value * scale) * kUlp};
    if (t == 0 || score[t].value > out.largest.value) out.largest.value = score[t].value;
    out.largest.error = std::max(out.largest.error, score[t].error);
  }
  out.values.resize(d);
  std::vector<double> magnitude(d);
  double probabilities = 0;
  for (uint32_t t = 0; t < count; ++t) {
    const double p = std::exp(score[t].value - out.largest.value);
    const double relative =
        score[t].error + out.largest.error + std::abs(score[t].value - out.largest.value) * kUlp + 2 * kUlp;
    const double rounded = round_to_bf16(p);
    const double doubt = round_to_bf16(p * (1 + relative)) - round_to_bf16(p * (1 - relative));
    out.toss_up = out.toss_up || doubt != 0;
    out.sum.value += p;
    out.sum.error += p * relative;
    probabilities += p;
    const uint16_t* v = cached(s.t.v_cache, t);
    for (uint32_t c = 0; c < d; ++c) {
      const double term = rounded * bf16_to_float(v[c]);
      out.values[c].value += term;
      out.values[c].error += doubt * std::abs(bf16_to_float(v[c]));
      magnitude[c] += std::abs(term);
    }
  }
  // Additions token by token.
  out.sum.error += count * kUlp / 2 * probabilities;
  for (uint32_t c = 0; c < d; ++c) out.values[c].error += count * kUlp / 2 * magnitude[c];
  return out;
}

// Position of a leaf's results, by the formula in attention/op.h.
uint64_t partial_at(const Scene& s, uint32_t splits, const PassRow& row, uint32_t r, uint32_t q_head,
                    uint32_t leaf) {
  const uint32_t group = s.shape.q_heads / s.shape.kv_heads, stride = s.shape.head_dim + 2;
  const uint32_t leaves = (s.shape.max_context + kLeafTokens - 1) / kLeafTokens;
  const uint64_t cols = uint64_t{(leaves + splits - 1) / splits} * group * stride;
  const uint64_t split = (row.slot + leaf) % splits;
  return ((q_head / group * splits + split) * whole_row_tiles(s.shape.rows) + r) * cols +
         (uint64_t{leaf / splits} * group + q_head % group) * stride;
}

// The three kinds of output separately: their magnitudes differ too much for one NMSE.
struct AttentionTally {
  Tally values, settled, largest, sums;
  void finish() const {
    values.finish("attention, values");
    settled.finish("attention, values of leaves without a toss-up", kMostSettledNmse);
    largest.finish("attention, largest scores");
    sums.finish("attention, sums of exponentials");
  }
};

void judge_attention(const Scene& s, AttentionTally& tally, Cover& compared) {
  const TensorId partial = s.stage(Opcode::kAttention).make(0, 1).as<Attention>().partial;
  const float* got = s.bench.data<const float>(partial);
  const uint32_t d = s.shape.head_dim;
  for (const uint32_t r : s.active_rows()) {
    const PassRow& row = s.rows()[r];
    for (uint32_t h = 0; h < s.shape.q_heads; ++h) {
      for (uint32_t leaf = 0; leaf * kLeafTokens <= row.position; ++leaf) {
        const LeafResult want = leaf_of(s, row, r, h, leaf);
        const uint64_t at = partial_at(s, s.shape.splits, row, r, h, leaf);
        std::fill_n(&compared[partial.index].at(at), d + 2, uint8_t{1});
        for (uint32_t c = 0; c < d; ++c) {
          tally.values.add(got[at + c], want.values[c]);
          if (!want.toss_up) tally.settled.add(got[at + c], want.values[c]);
        }
        tally.largest.add(got[at + d], want.largest);
        tally.sums.add(got[at + d + 1], want.sum);
      }
    }
  }
}

TEST(Attention, IsTheSoftmaxWeightedSumOfEachLeaf) {
  AttentionTally tally;
  over_random_scenes(
      Opcode::kAttention, 30, {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2}, tally.values,
      [&](const Scene& s, const Memory&, Tally&, Cover& compared) { judge_attention(s, tally, compared); });
  tally.finish();
}

TEST(Attention, HoldsInLongContexts) {
  AttentionTally tally;
  for (const uint32_t splits : {1U, 2U, 7U, 16U}) {
    Random random(77 + splits);
    Shape shape = random_shape(random, {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2});
    shape.q_heads = 2 * shape.kv_heads;
    shape.max_context = 5003;
    shape.splits = splits;
    Scene s(shape, random);
    tally.values.new_shape();
    s.new_pass(random, {5002, 4095, 4096, 2047 + random.below(900), 0});
    const Stage stage = s.stage(Opcode::kAttention);
    s.poison_outputs(stage);
    s.bench.run(split(stage, random));
    Cover compared = empty_cover(s.bench);
    judge_attention(s, tally, compared);
  }
  tally.finish();
}

TEST(AttentionMerge, WeighsEveryLeafByItsLargestScore) {
  over_random_scenes(
      Opcode::kAttentionMerge, 60,
      {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2, .max_context = 2000},
      [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        const uint32_t d = s.shape.head_dim;
        const TensorId partial = s.stage(Opcode::kAttentionMerge).make(0, 1).as<AttentionMerge>().partial;
        for (const uint32_t r : s.active_rows()) {
          const PassRow& row = s.rows()[r];
          const uint32_t leaves = row.position / kLeafTokens + 1;
          for (uint32_t h = 0; h < s.shape.q_heads; ++h) {
            std::vector<const float*> leaf;
            double largest = -HUGE_VAL, total = 0;
            for (uint32_t l = 0; l < leaves; ++l) {
              leaf.push_back(s.bench.data<const float>(partial) +
                             partial_at(s, s.shape.splits, row, r, h, l));
              largest = std::max<double>(largest, leaf.back()[d]);
            }
            for (const float* l : leaf) total += std::exp(l[d] - largest) * l[d + 1];
            for (uint32_t c = 0; c < d; ++c) {
              double sum = 0, magnitude = 0;
              for (const float* l : leaf) {
                sum += std::exp(l[d] - largest) * l[c];
                magnitude += std::exp(l[d] - largest) * std::abs(l[c]);
              }
              // An exponential, a product and `leaves` additions in numerator and denominator, and the
              // division. Scores differ by at most 16, so an exponent has an error of up to 16 half ulps.
              const double relative = (leaves + 2 + 16 + 2) * kUlp;
              const uint64_t at = s.bench.element(s.t.attended, r, h * d + c);
              compared[s.t.attended.index][at] = 1;
              tally.add_bf16(s.bench.data<const uint16_t>(s.t.attended)[at],
                             {sum / total, (magnitude / total + std::abs(sum / total)) * relative});
            }
          }
        }
      });
}

// The difference between the output of attention and softmax(q K / sqrt(d)) V, which is only due to rounding.
struct SoftmaxError {
  double square = 0, power = 0;

  void add(const Scene& s) {
    for (const uint32_t r : s.active_rows()) {
      for (uint32_t h = 0; h < s.shape.q_heads; ++h) add(s, r, h);
    }
  }
  void add(const Scene& s, uint32_t r, uint32_t h) {
    const PassRow& row = s.rows()[r];
    const uint32_t d = s.shape.head_dim, kv_head = h / (s.shape.q_heads / s.shape.kv_heads);
    const auto cached = [&](TensorId cache, uint32_t token) {
      const uint64_t col = s.block_of(row, token) * kKvBlockTokens + token % kKvBlockTokens;
      return s.bench.data<const uint16_t>(cache) + s.bench.element(cache, uint64_t{kv_head} * d, col);
    };
    const std::vector<double> q =
        widen(s.bench.data<const uint16_t>(s.t.q) + s.bench.element(s.t.q, r, uint64_t{h} * d), d);
    std::vector<double> sums(d);
    double total = 0;
    for (uint32_t token = 0; token <= row.position; ++token) {
      const double p = std::exp(dot(cached(s.t.k_cache, token), q).value / std::sqrt(d));
      total += p;
      for (uint32_t c = 0; c < d; ++c) sums[c] += p * bf16_to_float(cached(s.t.v_cache, token)[c]);
    }
    for (uint32_t c = 0; c < d; ++c) {
      const double want = sums[c] / total;
      const double got = bf16_to_float(
          s.bench.data<const uint16_t>(s.t.attended)[s.bench.element(s.t.attended, r, h * d + c)]);
      ASSERT_NEAR(got, want, 0x1p-7) << s.shape.text();  // values are at most 1; two bf16 roundings
      square += (got - want) * (got - want);
      power += want * want;
    }
  }
  void finish() const { EXPECT_LE(square / power, 1e-5); }  // (2^-9)² / 3 from each rounding
};

TEST(AttentionMerge, CompletesAttentionToThePlainSoftmax) {
  SoftmaxError error;
  for (int n = 0; n < 12; ++n) {
    Random random(500 + static_cast<uint64_t>(n));
    Scene s(
        random_shape(random,
                     {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2, .rows = {1, 16, 48, 256}}),
        random);
    s.new_pass(random);
    s.bench.run(split(s.stage(Opcode::kAttention), random));
    s.bench.run(split(s.stage(Opcode::kAttentionMerge), random));
    error.add(s);
  }
  error.finish();
}

TEST(PlannedAttention, IsThePlainSoftmax) {
  SoftmaxError error;
  for (int n = 0; n < 12; ++n) {
    Random random(600 + static_cast<uint64_t>(n));
    Scene s(random_shape(random,
                         {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2, .rows = {17, 256}}),
            random);
    s.new_pass(random);
    s.poison_outputs(s.stage(Opcode::kPlannedAttention));
    s.bench.run(split(s.stage(Opcode::kPlannedAttention), random));
    error.add(s);
  }
  error.finish();
}

TEST(PlannedMerge, CompletesPlannedAttentionWhereItemsShareARow) {
  SoftmaxError error;
  for (const uint32_t records : {1U, 4U, 9U, 30U}) {
    Random random(700 + records);
    Shape shape = random_shape(random, {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2});
    shape.q_heads = 3 * shape.kv_heads;
    shape.max_context = 9000;
    shape.records = records;
    Scene s(shape, random);
    s.new_pass(random, {8999, kPlannedLeafTokens - 1, 2 * kPlannedLeafTokens, 4095, 40});
    EXPECT_EQ(s.bench.data<AttentionList>(s.t.items)->splits > 0, records > 1);
    s.poison_outputs(s.stage(Opcode::kPlannedAttention));
    s.bench.run(split(s.stage(Opcode::kPlannedAttention), random));
    s.bench.run(split(s.stage(Opcode::kPlannedMerge), random));
    error.add(s);
  }
  error.finish();
}

TEST(MatvecResidual, AddsTheProductToTheResidualAndWeighsIt) {
  ResidualTally tally;
  over_random_scenes(Opcode::kMatvecResidual, 30, {.max_kv_heads = 2, .max_context = 100}, tally.residual,
                     [&](const Scene& s, const Memory& before, Tally& residual, Cover& compared) {
                       const uint32_t cols = s.shape.q_heads * s.shape.head_dim;
                       const auto* old = reinterpret_cast<const float*>(before[s.t.residual.index].data());
                       for (const uint32_t r : s.computed_rows()) {
                         const std::vector<double> x =
                             widen(s.bench.data<const uint16_t>(s.t.attended) + size_t{r} * cols, cols);
                         for (uint32_t j = 0; j < s.shape.hidden; ++j) {
                           const uint64_t at = s.bench.element(s.t.residual, r, j);
                           const Exact product = dot(weight_row(s, s.t.wo, j), x);
                           compared[s.t.residual.index][at] = 1;
                           residual.add(s.bench.data<const float>(s.t.residual)[at],
                                        {old[at] + product.value, product.error});
                         }
                         judge_for_readers(s, r, tally, compared);
                       }
                     });
  tally.residual.finish("matvec_residual");
  tally.finish("matvec_residual");
}

TEST(MatvecPart, IsTheProductOverAPartOfTheColumns) {
  over_random_scenes(
      Opcode::kMatvecPart, 30, {.max_kv_heads = 4, .max_context = 100, .rows = {1, 17, 48}, .tiles = true},
      [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        const uint32_t cols = s.shape.q_heads * s.shape.head_dim;
        const ColumnRange part = columns_of_part(cols, s.sums_part, s.sums_parts);
        for (const uint32_t r : s.computed_rows()) {
          const std::vector<double> x =
              widen(s.bench.data<const uint16_t>(s.t.attended) + size_t{r} * cols + part.begin, part.count());
          for (uint32_t j = 0; j < s.shape.hidden; ++j) {
            const uint64_t at = s.bench.element(s.t.part_sums, r, j);
            compared[s.t.part_sums.index][at] = 1;
            tally.add(s.bench.data<const float>(s.t.part_sums)[at],
                      dot(weight_row(s, s.t.wo, j) + part.begin, x));
          }
        }
      });
}

TEST(AddParts, AddsThePartsToTheResidualAndWeighsIt) {
  ResidualTally tally;
  over_random_scenes(Opcode::kAddParts, 40, kNarrow, tally.residual,
                     [&](const Scene& s, const Memory& before, Tally& residual, Cover& compared) {
                       const auto* old = reinterpret_cast<const float*>(before[s.t.residual.index].data());
                       for (const uint32_t r : s.computed_rows()) {
                         for (uint32_t j = 0; j < s.shape.hidden; ++j) {
                           const uint64_t at = s.bench.element(s.t.residual, r, j);
                           double sum = old[at], magnitude = std::abs(old[at]);
                           for (uint32_t p = 0; p < s.added_parts; ++p) {
                             const double part = s.bench.data<const float>(s.t.parts[p])[at];
                             sum += part;
                             magnitude += std::abs(part);
                           }
                           compared[s.t.residual.index][at] = 1;
                           residual.add(s.bench.data<const float>(s.t.residual)[at],
                                        {sum, rounding_error(s.added_parts, magnitude)});
                         }
                         judge_for_readers(s, r, tally, compared);
                       }
                     });
  tally.residual.finish("add_parts");
  tally.finish("add_parts");
}

TEST(GateUpSilu, IsTheGatedProductOfTheNormalisedRow) {
  over_random_scenes(
      Opcode::kGateUpSilu, 40, kNarrow, [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        for (const uint32_t r : s.computed_rows()) {
          const NormedRow x = normed_row(s, r);
          for (uint32_t j = 0; j < s.shape.intermediate; ++j) {
            const Exact g = normed_dot(weight_row(s, s.t.gate, j), x);
            const Exact u = normed_dot(weight_row(s, s.t.up, j), x);
            const double silu = g.value / (1 + std::exp(-g.value));
            constexpr double kSteepest = 1.1;  // bound of silu's slope
            const double error = kSteepest * g.error * (std::abs(u.value) + u.error) +
                                 std::abs(silu) * u.error + std::abs(silu * u.value) * 4 * kUlp;
            const uint64_t at = s.bench.element(s.t.product, r, j);
            compared[s.t.product.index][at] = 1;
            tally.add_bf16(s.bench.data<const uint16_t>(s.t.product)[at], {silu * u.value, error});
          }
        }
      });
}

// The softmax sums of a row's units must match its logits.
void judge_unit_softmax(const Scene& s, uint32_t r, Cover& compared) {
  const float* logits = s.bench.data<const float>(s.t.logits) + size_t{r} * s.shape.vocab;
  for (uint32_t unit = 0; unit < vocabulary_units(s.shape.vocab); ++unit) {
    const uint64_t at = s.bench.element(s.t.unit_softmax, r, uint64_t{unit} * kUnitSoftmaxCols);
    compared[s.t.unit_softmax.index][at] = compared[s.t.unit_softmax.index][at + 1] = 1;
    const float* got = s.bench.data<const float>(s.t.unit_softmax) + at;
    const float* first = logits + size_t{unit} * kUnitRows;
    const float* end = std::min(first + kUnitRows, logits + s.shape.vocab);
    const float* largest = std::max_element(first, end);
    EXPECT_EQ(got[0], *largest);
    EXPECT_EQ(std::bit_cast<uint32_t>(got[1]) & kFirstOfUnitMask, static_cast<uint32_t>(largest - first));
    double sum = 0;
    for (const float* logit = first; logit < end; ++logit) sum += std::exp(static_cast<double>(*logit));
    EXPECT_NEAR(got[1], sum, 16 * kUlp * sum);  // the lowest bits, exponentials, a tree of three additions
  }
}

TEST(LmHead, GivesLogitsToTheRowsThatWantThem) {
  over_random_scenes(
      Opcode::kLmHead, 40, kNarrow, [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
        for (const uint32_t r : s.active_rows()) {
          if (s.rows()[r].wants_logits == 0) continue;
          const NormedRow x = normed_row(s, r);
          for (uint32_t j = 0; j < s.shape.vocab; ++j) {
            const uint64_t at = s.bench.element(s.t.logits, r, j);
            compared[s.t.logits.index][at] = 1;
            tally.add(s.bench.data<const float>(s.t.logits)[at], normed_dot(weight_row(s, s.t.head, j), x));
          }
          judge_unit_softmax(s, r, compared);
        }
      });
}

TEST(QuantiseRows, GivesEachRowTheNearestCodesOfItsScale) {
  Tally scales;
  over_random_scenes(Opcode::kQuantiseRows, 40, kNarrow, scales,
                     [](const Scene& s, const Memory&, Tally& tally, Cover& compared) {
                       const uint64_t cols = s.bench.tensor(s.t.fp16).cols;
                       for (const uint32_t r : s.computed_rows()) {
                         const uint16_t* input = s.bench.data<const uint16_t>(s.t.fp16) + r * cols;
                         const uint64_t at = s.bench.element(s.t.codes, r, 0);
                         const uint8_t* codes = s.bench.data<const uint8_t>(s.t.codes) + at;
                         const double scale = e4m3_rows::scale_of(codes, cols);
                         double largest = 0;
                         for (uint64_t c = 0; c < cols; ++c) {
                           const double x = fp16_to_float(input[c]), value = e4m3_to_float(codes[c]) * scale;
                           largest = std::max(largest, std::abs(x));
                           // Half of the distance between two codes: 1/16 of the value, or of the smallest
                           // normal code, 2^-6.
                           EXPECT_LE(std::abs(value - x), std::max(std::abs(x), scale * 0x1p-6) / 16 * 1.0001)
                               << r << ", " << c;
                         }
                         tally.add(static_cast<float>(scale), {largest / 448, 0});
                         std::fill_n(compared[s.t.codes.index].begin() + static_cast<ptrdiff_t>(at),
                                     cols + sizeof(float), 1);
                       }
                     });
  scales.finish("quantise_rows, scales");
}

TEST(Pool, GivesSlotsTheNormedHiddenStatesOfRowsThatWantThem) {
  over_random_scenes(
      Opcode::kPool, 40, kNarrow, [](const Scene& s, const Memory& before, Tally& tally, Cover& compared) {
        const auto* old = reinterpret_cast<const float*>(before[s.t.pooled.index].data());
        const uint16_t* norm = weight_row(s, s.t.norm, 0);
        for (const uint32_t r : s.active_rows()) {
          const PassRow& row = s.rows()[r];
          if (row.wants_logits == 0) continue;
          const Exact scale = normed_row(s, r).scale;
          for (uint32_t c = 0; c < s.shape.hidden; ++c) {
            const double x = s.bench.data<const float>(s.t.residual)[size_t{r} * s.shape.hidden + c];
            const double weighted = x * bf16_to_float(norm[c]), value = weighted * scale.value;
            const uint64_t at = s.bench.element(s.t.pooled, row.slot, c);
            const double sum = value + (row.adds != 0 ? old[at] : 0);
            const double error = std::abs(weighted) * scale.error + rounding_error(2, std::abs(value)) +
                                 rounding_error(1, std::abs(sum));
            compared[s.t.pooled.index][at] = 1;
            tally.add(s.bench.data<const float>(s.t.pooled)[at], {sum, error});
          }
          for (size_t byte = 0; byte < sizeof(SampledToken); ++byte)
            compared[s.t.sampled.index][r * sizeof(SampledToken) + byte] = 1;
          EXPECT_EQ(s.bench.data<const SampledToken>(s.t.sampled)[r].token, row.token);
          EXPECT_EQ(s.bench.data<const SampledToken>(s.t.sampled)[r].log_probability, 0);
        }
      });
}

// Runs the stage for the rows [begin, end) of the table only.
void pool_rows(Scene& s, uint32_t begin, uint32_t end) {
  const std::vector<std::byte> rows = s.bench.memory[s.t.rows.index];
  for (uint32_t r = 0; r < s.shape.rows; ++r) {
    if (r < begin || r >= end) s.rows()[r].active = 0;
  }
  s.bench.run(whole(s.stage(Opcode::kPool)));
  s.bench.memory[s.t.rows.index] = rows;
}

// The bits of a sum do not depend on where a sequence is divided among passes.
TEST(Pool, AddsTheRowsOfASequenceInTheirOrderWhereverItIsCut) {
  ShapeLimits limits = kNarrow;
  limits.rows = {16, 48, 256};
  limits.tiles = true;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    Scene s(random_shape(random, limits), random);
    s.new_pass(random);
    const uint32_t slots = random.between(1, 3), rows = s.shape.logit_rows();
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t position = r / slots;
      s.rows()[r] = {1, 1, r % slots, 5, position, kNoTarget, position > 0 ? 1U : 0U};
    }
    const std::vector<std::vector<std::byte>> before = s.bench.memory;
    pool_rows(s, 0, rows);
    const auto at_once = s.bench.memory[s.t.pooled.index];
    s.bench.memory = before;
    for (uint32_t begin = 0; begin < rows;) {
      const uint32_t end = std::min(rows, begin + random.between(1, 2 * slots));
      pool_rows(s, begin, end);
      begin = end;
    }
    EXPECT_EQ(s.bench.memory[s.t.pooled.index], at_once) << s.shape.text();
  }
}

TEST(Pool, NotesHiddenStatesThatAreNotFinite) {
  Random random(7);
  Scene s(random_shape(random, kNarrow), random);
  s.new_pass(random, {3, 4, 5});
  const std::vector<uint32_t> active = s.active_rows();
  const uint32_t squares = s.shape.hidden / square_cols(s.shape.order());
  float* of_rows = s.bench.data<float>(s.t.squares);
  of_rows[active[0] * squares] = std::numeric_limits<float>::infinity();
  of_rows[active[2] * squares] = std::numeric_limits<float>::quiet_NaN();
  s.bench.run(whole(s.stage(Opcode::kPool)));
  const auto* sampled = s.bench.data<const SampledToken>(s.t.sampled);
  EXPECT_TRUE(std::isnan(sampled[active[0]].log_probability));
  EXPECT_EQ(sampled[active[1]].log_probability, 0);
  EXPECT_TRUE(std::isnan(sampled[active[2]].log_probability));
}

TEST(UnitSoftmax, SaysWhereLogitsMustBeReadAfterAll) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const auto of = [](std::vector<float> logits) { return unit_softmax(logits); };
  EXPECT_EQ(of({-3, nan, 2}).largest, 2);
  EXPECT_TRUE(std::isnan(of({-3, nan, 2}).sum));
  EXPECT_EQ(of({nan, nan}).largest, -infinity);
  EXPECT_FALSE(std::isfinite(of({1, 100}).sum));
  for (const float bad : {nan, infinity, -infinity}) {
    EXPECT_TRUE(std::isnan(of({bad, 1}).sum));
    EXPECT_TRUE(std::isnan(of({1, 2, bad}).sum));
    EXPECT_TRUE(std::isnan(of({bad, bad}).sum));
  }
}

TEST(UnitSoftmax, NamesTheFirstOfEquals) {
  const auto first = [](std::vector<float> logits) {
    return std::bit_cast<uint32_t>(unit_softmax(logits).sum) & kFirstOfUnitMask;
  };
  EXPECT_EQ(first({0, 0, 0, 0, 0, 0, 0, 0}), 0U);
  EXPECT_EQ(first({-1, -0.0F, 0, -1}), 1U);
  EXPECT_EQ(first({-9, -9, -9, -9, -9, -9, -9, -8}), 7U);
  EXPECT_EQ(first({std::numeric_limits<float>::quiet_NaN(), 3}), 1U);
}

TEST(Sample, DrawsForTheRowsThatWantLogits) {
  for (uint64_t n = 0; n < 40; ++n) {
    Random random(900 + n);
    Scene s(random_shape(random, {.max_hidden = 16, .max_intermediate = 16, .rows = {1, 16, 48, 256}}),
            random);
    s.new_pass(random);
    const Stage stage = s.stage(Opcode::kSample);
    s.poison_outputs(stage);
    const std::vector<std::byte> before = s.bench.memory[s.t.sampled.index];
    s.bench.run(split(stage, random));
    std::vector<Candidate> candidates;
    for (uint32_t r = 0; r < s.shape.rows; ++r) {
      const PassRow& row = s.rows()[r];
      const SampledToken& got = s.bench.data<const SampledToken>(s.t.sampled)[r];
      if (row.active != 0 && row.wants_logits != 0) {
        const float* logits = s.bench.data<const float>(s.t.logits) + size_t{r} * s.shape.vocab;
        const SequenceSlot& slot = s.slots()[row.slot];
        const SampledToken want = sample_token({logits, s.shape.vocab}, slot, row.position + 1, candidates,
                                               s.adjustments(row.slot));
        TopTokens top;
        const uint32_t listed = list_top({logits, s.shape.vocab}, slot.num_top, candidates, top);
        const TopTokens& got_top = s.bench.data<const TopTokens>(s.t.top)[r];
        EXPECT_EQ(std::memcmp(&got_top, &top, listed * sizeof(SampledToken)), 0);
        EXPECT_EQ(got.token, want.token);
        EXPECT_EQ(got.log_probability, want.log_probability);
      } else {
        const auto* bytes = reinterpret_cast<const char*>(&got);
        const auto* old = reinterpret_cast<const char*>(&before[r * sizeof got]);
        EXPECT_TRUE(std::equal(bytes, bytes + sizeof got, old)) << "row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace serval::testing
