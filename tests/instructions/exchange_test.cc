// The exchange instructions on two ranks, as two devices of one bench, in programs that multiply vectors and
// in programs that multiply tiles of rows.
#include <array>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/common/matvec.h"
#include "instructions/common/residual.h"
#include "instructions/common/slices.h"
#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"
#include "vm/state/names.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRanks = 2, kRows = 16, kCols = 128, kInputs = 48, kSlice = kCols / kRanks;
constexpr uint32_t kActive = 5, kIdle = 6;  // rows of the pass

class Exchange : public ::testing::TestWithParam<Order> {
 protected:
  Exchange() {
    bench_.program.num_devices = kRanks;
    bench_.program.limits.rows = kRows;
    bench_.program.order = GetParam();
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      rows_[rank] = add(rank, state_tensor::kRows, DType::kBytes, TensorKind::kState, kRows, sizeof(PassRow));
      bench_.data<PassRow>(rows_[rank])[kActive] = {.active = 1, .wants_logits = 1};
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      control_[rank] =
          add(rank, state_tensor::kControl, DType::kBytes, TensorKind::kState, 1, sizeof(PassControl));
    exchange_ = peers("exchange", partial_sum_type(GetParam()), kCols);
    weighted_ = product_input("weighted", kCols);
    squares_ = peers("squares", DType::kF32, kCols / square_cols(GetParam()));
    residual_ = peers("residual", DType::kF32, kCols);
    input_ = product_input("input", kInputs);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      weights_[rank] = add(rank, "weights", DType::kBF16, TensorKind::kWeight, kCols, kInputs);
      fill<uint16_t>(weights_[rank], [&] { return float_to_bf16(static_cast<float>(random_.real(-1, 1))); });
      fill<uint16_t>(input_.on(rank), [&] { return float_to_bf16(static_cast<float>(random_.real(-1, 1))); });
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      norm_[rank] = add(rank, "norm", DType::kBF16, TensorKind::kWeight, 1, kCols);
      fill<uint16_t>(norm_[rank], [&] { return float_to_bf16(1); });
    }
  }

  TensorId add(uint32_t rank, const char* name, DType dtype, TensorKind kind, uint64_t rows, uint64_t cols) {
    const TensorId id = bench_.add(name, dtype, kind, rows, cols);
    bench_.program.tensors[id.index].device = static_cast<uint8_t>(rank);
    return id;
  }
  PeerTensors product_input(const char* name, uint64_t cols) {
    const PeerTensors all = peers(name, DType::kBF16, cols);
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      bench_.program.tensors[all.on(rank).index].image = product_image(GetParam());
    return all;
  }
  PeerTensors peers(const char* name, DType dtype, uint64_t cols) {
    const TensorId first = add(0, name, dtype, TensorKind::kActivation, kRows, cols);
    for (uint32_t rank = 1; rank < kRanks; ++rank)
      add(rank, name, dtype, TensorKind::kActivation, kRows, cols);
    return {first.index};
  }
  template <class T, class Fn>
  void fill(TensorId id, Fn&& value) {
    const Tensor& t = bench_.tensor(id);
    for (uint64_t i = 0; i < t.rows * t.cols; ++i) bench_.data<T>(id)[i] = value();
  }

  MatvecPush push(uint32_t rank) const {
    return {weights_[rank], input_.on(rank), rows_[rank], exchange_, 0,    kCols / kUnitRows, kInputs, kCols,
            rank,           kRanks,          0,           0,         kRows};
  }
  ReduceResidual reduce(uint32_t rank) const {
    constexpr uint32_t kUnits = kSlice / kUnitRows;
    return {exchange_.on(rank),
            rows_[rank],
            norm_[rank],
            residual_.on(rank),
            weighted_,
            squares_,
            rank * kUnits,
            kUnits,
            kCols,
            rank,
            kRanks,
            0,
            0,
            kRows};
  }
  // Partial sums at `owner`.
  bool sums_are_f32() const { return partial_sum_type(GetParam()) == DType::kF32; }
  float sum(uint32_t owner, uint32_t row, uint32_t col) const {
    return bench_.number(exchange_.on(owner), size_t{row} * kCols + col);
  }
  void set_sum(uint32_t owner, uint32_t row, uint32_t col, float value) {
    const size_t at = size_t{row} * kCols + col;
    if (sums_are_f32())
      bench_.data<float>(exchange_.on(owner))[at] = value;
    else
      bench_.data<uint16_t>(exchange_.on(owner))[at] = float_to_bf16(value);
  }
  template <class Fn>
  void fill_sums(uint32_t owner, Fn&& value) {
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t col = 0; col < kCols; ++col) set_sum(owner, row, col, value());
    }
  }
  const float* row_of(TensorId id, uint32_t row) {
    return bench_.data<const float>(id) + row * bench_.tensor(id).cols;
  }
  std::string refusal(const Instruction& i) const { return check_instruction(bench_.program, i); }

  Random random_{7};
  Bench bench_;
  std::array<TensorId, kRanks> rows_, control_, weights_, norm_;
  PeerTensors exchange_, weighted_, squares_, residual_, input_;
};

TEST_P(Exchange, PutsEachSliceWhereItsOwnerLooks) {
  for (uint32_t owner = 0; owner < kRanks; ++owner) bench_.poison(exchange_.on(owner));
  for (uint32_t rank = 0; rank < kRanks; ++rank) bench_.run(make_instruction(push(rank)));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<float> x(matvec_cols(kInputs)), y(kCols);
    matvec_row(bench_.data<const uint16_t>(input_.on(rank)) + kActive * kInputs, kInputs, x.data());
    matvec(bench_.data<const uint16_t>(weights_[rank]), kCols, kInputs, x.data(), 1, y.data(), kCols);
    for (uint32_t col = 0; col < kCols; ++col) {
      const uint32_t owner = col / kSlice;
      const float pushed = sums_are_f32() ? y[col] : bf16_to_float(float_to_bf16(y[col]));
      EXPECT_EQ(sum(owner, kActive, rank * kSlice + col % kSlice), pushed);
    }
  }
  for (uint32_t owner = 0; owner < kRanks; ++owner) {
    const size_t row_bytes = kCols * size_of(partial_sum_type(GetParam()));
    const std::byte* idle = bench_.data<const std::byte>(exchange_.on(owner)) + kIdle * row_bytes;
    EXPECT_TRUE(std::all_of(idle, idle + row_bytes, [](std::byte b) { return b == kPoison; }));
  }
}

// First the ranks' sums in rank order, then the residual: with these three numbers, each order gives another
// fp32 result.
TEST_P(Exchange, AddsTheSumsInTheOrderOfTheRanksAndTheResidualLast) {
  fill_sums(1, [] { return 0.0F; });
  float* residual = bench_.data<float>(residual_.on(1)) + kActive * kCols;
  set_sum(1, kActive, 0, 0x1p24F);        // rank 0's sum for the slice's first column
  set_sum(1, kActive, kSlice, -0x1p24F);  // rank 1's
  residual[kSlice] = 1;
  bench_.run(make_instruction(reduce(1)));
  EXPECT_EQ(residual[kSlice], 1);
  set_sum(1, kActive, kSlice, 1);
  residual[kSlice] = -0x1p24F;
  bench_.run(make_instruction(reduce(1)));
  EXPECT_EQ(residual[kSlice], 0);
}

TEST_P(Exchange, BringsTheNextReadersOfAllRanksTheSame) {
  for (uint32_t owner = 0; owner < kRanks; ++owner) {
    fill_sums(owner, [&] { return static_cast<float>(random_.real(-1, 1)); });
    fill<float>(residual_.on(owner), [&] { return static_cast<float>(random_.real(-1, 1)); });
  }
  for (uint32_t owner = 0; owner < kRanks; ++owner) bench_.run(make_instruction(reduce(owner)));
  EXPECT_EQ(bench_.memory[weighted_.on(0).index], bench_.memory[weighted_.on(1).index]);
  EXPECT_EQ(bench_.memory[squares_.on(0).index], bench_.memory[squares_.on(1).index]);
  for (uint32_t col = 0; col < kCols; ++col) {
    const float value = row_of(residual_.on(col / kSlice), kActive)[col];
    EXPECT_EQ(bench_.data<const uint16_t>(weighted_.on(0))[kActive * kCols + col], float_to_bf16(value));
  }
}

TEST_P(Exchange, WritesOnlyItsOwnersResidual) {
  const auto before = bench_.memory[residual_.on(0).index];
  fill_sums(1, [] { return 1.0F; });
  bench_.run(make_instruction(reduce(1)));
  EXPECT_EQ(bench_.memory[residual_.on(0).index], before);
}

TEST_P(Exchange, BringsAnotherRankTheRowsAndTheDecision) {
  PassControl& mine = *bench_.data<PassControl>(control_[0]);
  PassControl& theirs = *bench_.data<PassControl>(control_[1]);
  mine = {.passes_done = 3, .passes_wanted = 9};
  theirs = {};
  bench_.data<PassRow>(rows_[0])[kIdle] = {
      .active = 1, .wants_logits = 1, .slot = 2, .token = 7, .position = 11};
  const Instruction push = make_instruction(PushState{rows_[0], control_[0], rows_[1], control_[1]});
  bench_.run(push);
  EXPECT_EQ(bench_.memory[rows_[0].index], bench_.memory[rows_[1].index]);
  EXPECT_EQ(theirs.passes_done, 3U);
  EXPECT_EQ(theirs.last_pass, kKeepRunning);
  mine.last_pass = 3;
  mine.stopped_by_host = 1;
  bench_.run(push);
  EXPECT_EQ(theirs.last_pass, 3U);
  EXPECT_EQ(theirs.stopped_by_host, 1U);
}

TEST_P(Exchange, IsRefusedBetweenTensorsThatAreNotThoseOfTheRanks) {
  MatvecPush not_all = push(0);
  not_all.partial = {exchange_.first + 1};
  EXPECT_THAT(refusal(make_instruction(not_all)), HasSubstr("partial: tensor"));
  MatvecPush other_rank = push(0);
  other_rank.rank = 1;
  EXPECT_THAT(refusal(make_instruction(other_rank)), HasSubstr("weights: tensor"));
  MatvecPush three = push(0);
  three.ranks = 3;
  EXPECT_EQ(refusal(make_instruction(three)), "matvec_push: ranks: 3, the program has 2");
  ReduceResidual other_slice = reduce(1);
  other_slice.first_unit = 0;
  EXPECT_THAT(refusal(make_instruction(other_slice)),
              HasSubstr("first_unit: 0, expected a unit of the rank's"));
  ReduceResidual mixed = reduce(1);
  mixed.residual = residual_.on(0);
  EXPECT_THAT(refusal(make_instruction(mixed)), HasSubstr("residual: residual is on device 0"));
  EXPECT_THAT(refusal(make_instruction(PushState{rows_[0], control_[0], rows_[0], control_[1]})),
              HasSubstr("peer_rows: tensor"));
}

INSTANTIATE_TEST_SUITE_P(Programs, Exchange, ::testing::Values(Order::kVector, Order::kTile),
                         [](const auto& instance) {
                           return instance.param == Order::kTile ? "OfTiles" : "OfVectors";
                         });

}  // namespace
}  // namespace serval::testing
