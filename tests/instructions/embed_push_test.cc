// The embedding that ranks share by rows, with 1, 2 and 8 ranks as devices of one bench. After the owners
// have added up the pushed rows, it has the same bits as with one rank.
#include <algorithm>
#include <array>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/common/residual.h"
#include "instructions/common/slices.h"
#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"
#include "vm/state/names.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRows = 16, kCols = 256, kUnits = kCols / kUnitRows;

// The ranks' tensors, and the whole table.
class SharedTable {
 public:
  SharedTable(uint32_t vocab, uint32_t ranks) : vocab_(vocab), ranks_(ranks), random_(vocab + ranks) {
    bench_.program.num_devices = ranks;
    bench_.program.limits.rows = kRows;
    bench_.program.limits.vocab = vocab;
    rows_ = on_each_rank(state_tensor::kRows, DType::kBytes, TensorKind::kState, sizeof(PassRow));
    exchange_ = on_each_rank("exchange", DType::kF32, TensorKind::kActivation, kCols);
    weighted_ = on_each_rank("weighted", DType::kBF16, TensorKind::kActivation, kCols);
    squares_ = on_each_rank("squares", DType::kF32, TensorKind::kActivation, kCols / kUnitRows);
    residual_ = on_each_rank("residual", DType::kF32, TensorKind::kActivation, kCols);
    norm_ = {static_cast<uint32_t>(bench_.memory.size())};
    for (uint32_t rank = 0; rank < ranks; ++rank) add_norm(rank);
    whole_.resize(size_t{vocab} * kCols);
    for (uint16_t& value : whole_) value = float_to_bf16(static_cast<float>(random_.real(-3, 3)));
    table_ = {static_cast<uint32_t>(bench_.memory.size())};
    for (uint32_t rank = 0; rank < ranks; ++rank) add_table(rank);
    fill_rows();
  }

  EmbedPush push(uint32_t rank) const {
    const VocabularyShare own = vocabulary_share(vocab_, rank, ranks_);
    return {.table = table_.on(rank),
            .rows = rows_.on(rank),
            .partial = exchange_,
            .first_unit = 0,
            .num_units = kUnits,
            .out_cols = kCols,
            .vocab = vocab_,
            .first_token = static_cast<uint32_t>(own.first),
            .num_tokens = static_cast<uint32_t>(own.count),
            .rank = rank,
            .ranks = ranks_,
            .num_rows = kRows};
  }
  ReduceResidual reduce(uint32_t rank) const {
    const uint32_t units = kUnits / ranks_;
    return {.partial = exchange_.on(rank),
            .rows = rows_.on(rank),
            .norm = norm_.on(rank),
            .residual = residual_.on(rank),
            .weighted = weighted_,
            .squares = squares_,
            .first_unit = rank * units,
            .num_units = units,
            .out_cols = kCols,
            .rank = rank,
            .ranks = ranks_,
            .num_rows = kRows,
            .begins = 1};
  }
  // Starts with memory filled with NaNs.
  void look_up() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const PeerTensors& written : {exchange_, weighted_, squares_, residual_})
        bench_.poison(written.on(rank));
    }
    for (uint32_t rank = 0; rank < ranks_; ++rank) bench_.run(make_instruction(push(rank)));
    for (uint32_t rank = 0; rank < ranks_; ++rank) bench_.run(make_instruction(reduce(rank)));
  }
  // Active rows must have the table's values on all ranks.
  void expect_bits_of_one_rank() {
    for (uint32_t r = 0; r < kRows; ++r) {
      const PassRow& row = bench_.data<const PassRow>(rows_.on(0))[r];
      if (row_is_active(row)) expect_row(r, static_cast<uint32_t>(row.token));
    }
  }
  std::string refusal(const EmbedPush& op) const {
    return check_instruction(bench_.program, make_instruction(op));
  }

 private:
  PeerTensors on_each_rank(const char* name, DType dtype, TensorKind kind, uint64_t cols) {
    const PeerTensors all{static_cast<uint32_t>(bench_.memory.size())};
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const bool is_input = dtype == DType::kBF16;
      tensor(rank, name, dtype, kind, kRows, cols).image = is_input ? Image::kActivation : Image::kRowMajor;
    }
    return all;
  }
  Tensor& tensor(uint32_t rank, const char* name, DType dtype, TensorKind kind, uint64_t rows,
                 uint64_t cols) {
    Tensor& added = bench_.program.tensors[bench_.add(name, dtype, kind, rows, cols).index];
    added.device = static_cast<uint8_t>(rank);
    return added;
  }
  void add_norm(uint32_t rank) {
    tensor(rank, "norm", DType::kBF16, TensorKind::kWeight, 1, kCols);
    for (uint32_t c = 0; c < kCols; ++c)
      bench_.data<uint16_t>(norm_.on(rank))[c] = float_to_bf16(static_cast<float>(c % 7) / 4);
  }
  // A rank without tokens of its own still has one unit, as in models/ranks.h.
  void add_table(uint32_t rank) {
    const VocabularyShare own = vocabulary_share(vocab_, rank, ranks_);
    const uint64_t rows = own.count > 0 ? own.count : std::min<uint64_t>(kUnitRows, vocab_ - own.first);
    tensor(rank, "table", DType::kBF16, TensorKind::kWeight, rows, kCols);
    std::copy_n(whole_.data() + own.first * kCols, rows * kCols, bench_.data<uint16_t>(table_.on(rank)));
  }
  // The first and last tokens, and others between them; every fifth row is not active.
  void fill_rows() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      auto* rows = bench_.data<PassRow>(rows_.on(rank));
      for (uint32_t r = 0; r < kRows; ++r) {
        const uint32_t token =
            r < kRows / 2 ? r * vocab_ / (kRows / 2) : vocab_ - 1 - r % vocab_ % 3 % vocab_;
        rows[r] = {.active = r % 5 == 4 ? 0U : 1U, .token = static_cast<int32_t>(token % vocab_)};
      }
    }
  }
  void expect_row(uint32_t r, uint32_t token) {
    const uint32_t width = kCols / ranks_;
    std::vector<float> values(kCols), squares(kUnits);
    std::vector<uint16_t> weighted(kCols);
    std::transform(whole_.begin() + token * kCols, whole_.begin() + (token + 1) * kCols, values.begin(),
                   bf16_to_float);
    apply_norm(values.data(), bench_.data<const uint16_t>(norm_.on(0)), kCols, kSquareColsOfMatvec,
               weighted.data(), squares.data());
    for (uint32_t c = 0; c < kCols; ++c) {
      ASSERT_EQ(bench_.data<const float>(residual_.on(c / width))[r * kCols + c], values[c])
          << r << ", " << c;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        ASSERT_EQ(bench_.data<const uint16_t>(weighted_.on(rank))[r * kCols + c], weighted[c]);
        ASSERT_EQ(bench_.data<const float>(squares_.on(rank))[r * kUnits + c / kUnitRows],
                  squares[c / kUnitRows]);
      }
    }
  }

  const uint32_t vocab_, ranks_;
  Random random_;
  Bench bench_;
  std::vector<uint16_t> whole_;  // [vocab, kCols]
  PeerTensors rows_, exchange_, weighted_, squares_, residual_, norm_, table_;
};

TEST(SharedEmbedding, HasTheBitsOfOneRanks) {
  for (const uint32_t ranks : {1U, 2U, 8U}) {
    for (const uint32_t vocab : {2U, 13U, 64U, 203U, 1024U}) {
      SCOPED_TRACE(std::to_string(vocab) + " tokens on " + std::to_string(ranks) + " ranks");
      SharedTable table(vocab, ranks);
      ASSERT_NO_FATAL_FAILURE(table.look_up());
      ASSERT_NO_FATAL_FAILURE(table.expect_bits_of_one_rank());
    }
  }
}

TEST(SharedEmbedding, IsRefusedWhereATokenWouldCountTwiceOrNotAtAll) {
  const SharedTable few(13, 8), many(203, 8);
  EXPECT_EQ(many.refusal(many.push(3)), "");
  EmbedPush again = few.push(0);  // unit that rank 3 looks up
  again.num_tokens = kUnitRows;
  EXPECT_THAT(few.refusal(again), HasSubstr("first_token: 0, expected with num_tokens the rank's share"));
  EmbedPush other = many.push(3);
  other.first_token += kUnitRows;
  EXPECT_THAT(many.refusal(other), HasSubstr("first_token: 80, expected with num_tokens the rank's share"));
  EmbedPush as_another = many.push(3);
  as_another.rank = 4;
  EXPECT_NE(many.refusal(as_another), "");
  EmbedPush of_another = many.push(3);
  of_another.table = many.push(4).table;
  EXPECT_THAT(many.refusal(of_another), HasSubstr("table: "));
}

}  // namespace
}  // namespace serval::testing
