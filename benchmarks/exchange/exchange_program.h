// A program that only exchanges partial sums between ranks, repeatedly, in order to time the exchange
// (docs/several_gpus.md). Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "vm/machine.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Columns of a row: 16 KiB in bf16, the bytes of a row that are exchanged.
inline constexpr uint32_t kExchangeCols = 8192;
inline constexpr uint32_t kExchangeRowBytes = kExchangeCols * 2;

struct ExchangeShape {
  uint32_t ranks = 2;
  uint32_t rows = 1;
  uint32_t cols = kExchangeCols;
  // Columns of weights over which a partial sum is computed: the minimum, or more, so that weights are loaded
  // while the ranks exchange.
  uint32_t weight_cols = 0;  // 0: the minimum
  // Matrices of weights that the rounds use in turn. A single one stays in the GPU's cache.
  uint32_t matrices = 1;
  uint32_t rounds = 1;
};

// The minimum of weight columns; their number must be a multiple of it.
uint32_t weight_cols_step(uint32_t rows);

// Tensors of the program. Each exists on every rank, besides the weight matrices [cols, weight_cols].
namespace exchange_tensor {
std::string weights(uint32_t matrix);
inline constexpr const char* kTable = "exchange.table";             // [tokens, cols]: for the residual
inline constexpr const char* kInputTable = "exchange.input_table";  // [tokens, weight_cols]
inline constexpr const char* kNorm = "exchange.norm";               // [1, cols]
inline constexpr const char* kInputNorm = "exchange.input_norm";    // [1, weight_cols]
inline constexpr const char* kResidual = "residual";
inline constexpr const char* kWeighted = "weighted";
}  // namespace exchange_tensor

// Number of different tokens: rows of the tables.
inline constexpr uint32_t kExchangeTokens = 128;

// In each round every rank multiplies its weights with a constant input and pushes the partial sums to the
// owners of their columns (matvec_push). The owners add them up and push the result to all ranks
// (reduce_residual), as at the end of a layer's attention or MLP. A rank begins a round when all columns of
// all rows are complete, as the next layer would. So a round takes the time of one all-reduce plus the
// product that it begins with. Everything else occurs once: `embed` before the rounds, and after them a small
// LM head, `sample` and `advance`, which do nothing because no row wants logits. A launch is one pass of
// active rows.
//
// `machine` is one rank's. Throws Error(kUsage) unless the ranks can share the columns and a kernel supports
// that many rows. The result is valid (scheduler/validate.h).
Program exchange_program(const ExchangeShape& shape, const Machine& machine);

// The state at the start of a launch: all rows of the program active, one pass.
void fill_exchange_state(StateBlock& state);

// Rounds of two programs whose times are compared. With few rows, enough rounds to be timed; with many rows
// fewer, because each round takes long and has many instructions.
struct ExchangeRounds {
  uint32_t few, many;
};
ExchangeRounds exchange_rounds(uint32_t rows);

// Bytes of weights that a round reads on each rank. Tiles of rows that share weights count them once.
uint64_t weight_bytes_of_round(const ExchangeShape& shape);

// Sets the columns and matrices of weights so that a round reads about `bytes` of them on each rank, but at
// most what the kernel's SMs can hold before their inputs are complete: beyond that no load is in flight
// while they wait. Keeps the rest of the shape.
ExchangeShape with_weights(const ExchangeShape& shape, const Machine& machine, uint64_t bytes);

}  // namespace serval
