// The exchange of partial sums between ranks without a model around it: a program that does it over and over,
// to be timed (docs/several_gpus.md). Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "vm/machine.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Columns of a row: 16 KiB in bf16, which is what is exchanged of it.
inline constexpr uint32_t kExchangeCols = 8192;
inline constexpr uint32_t kExchangeRowBytes = kExchangeCols * 2;

struct ExchangeShape {
  uint32_t ranks = 2;
  uint32_t rows = 1;
  uint32_t cols = kExchangeCols;
  // Columns of weights that a partial sum is a product over: the least that there can be, or more, so that
  // weights are under way while the ranks exchange.
  uint32_t weight_cols = 0;  // 0: the least
  // Matrices of weights that the rounds take in turn. One stays in the GPU's cache.
  uint32_t matrices = 1;
  uint32_t rounds = 1;
};

// Weight columns, at least, and what more of them are a multiple of.
uint32_t weight_cols_step(uint32_t rows);

// Tensors of the program, each on every rank, beside matrices of weights [cols, weight_cols].
namespace exchange_tensor {
std::string weights(uint32_t matrix);
inline constexpr const char* kTable = "exchange.table";             // [tokens, cols]: of the residual
inline constexpr const char* kInputTable = "exchange.input_table";  // [tokens, weight_cols]
inline constexpr const char* kNorm = "exchange.norm";               // [1, cols]
inline constexpr const char* kInputNorm = "exchange.input_norm";    // [1, weight_cols]
inline constexpr const char* kResidual = "residual";
inline constexpr const char* kWeighted = "weighted";
}  // namespace exchange_tensor

// Tokens that rows may have: rows of the tables.
inline constexpr uint32_t kExchangeTokens = 128;

// In each round every rank multiplies its weights with an input that does not change and pushes the partial
// sums to the owners of their columns (matvec_push); these add them up and push the result to all ranks
// (reduce_residual), as at the end of a layer's attention or MLP. A round begins on a rank when all columns
// of all rows are there, since that is what the next layer waits for: so a round's time is that of one
// all-reduce, with the product that it begins with. What a program needs beside that is there once: `embed`
// before the rounds; a small LM head, `sample` and `advance` behind them, without work where no row wants
// logits. A launch is one pass of active rows that want none.
//
// `machine` is one rank's. Throws Error(kUsage) unless the ranks can share the columns and the kernels take
// that many rows. The result is valid (scheduler/validate.h).
Program exchange_program(const ExchangeShape& shape, const Machine& machine);

// The state that a launch begins with: all rows of the program active, one pass.
void fill_exchange_state(StateBlock& state);

// Rounds of two programs whose times are compared: of few rows enough to be timed, of many fewer, since there
// each takes long and has many instructions.
struct ExchangeRounds {
  uint32_t few, many;
};
ExchangeRounds exchange_rounds(uint32_t rows);

// What a round reads of weights on each rank. Tiles of rows that share them count them once.
uint64_t weight_bytes_of_round(const ExchangeShape& shape);

// Columns and matrices of weights, so that a round reads about `bytes` of them on each rank, but no more than
// the kernel's SMs hold before their inputs are there: beyond that, no load is under way while they wait. The
// rest of the shape is as it was.
ExchangeShape with_weights(const ExchangeShape& shape, const Machine& machine, uint64_t bytes);

}  // namespace serval
