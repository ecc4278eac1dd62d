// The work of one instruction in a pass, from its footprint and its cost.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "vm/layout/units.h"
#include "vm/program.h"
#include "vm/state/view.h"

namespace serval::sim {

// The KV blocks of all slots. Times do not depend on where blocks lie, so every block is used only once.
class BlockTable {
 public:
  BlockTable(uint32_t sequences, uint32_t tokens);  // the most tokens that a sequence has
  StateView view(const PassRow* rows) const { return {rows, blocks_.data(), blocks_per_sequence_}; }

 private:
  uint32_t blocks_per_sequence_;
  std::vector<int32_t> blocks_;
};

// The rows of one pass: as many as the program has.
class Pass {
 public:
  explicit Pass(std::vector<PassRow> rows) : rows_(std::move(rows)) {}

  // Plans its attention, if the program does that.
  void plan(const Program& program);
  StateView view(const BlockTable& blocks) const;
  uint32_t active_rows() const;
  uint32_t mean_context_tokens() const;
  uint64_t tokens() const;  // in the cache after the pass, of all its sequences together
  // Rows of the pass after this one; a sequence at its end is inactive.
  std::vector<PassRow> next_rows(uint32_t max_context) const;

 private:
  std::vector<PassRow> rows_;
  std::vector<uint32_t> attention_;  // an AttentionList with its items, or nothing
};

// The work of an instruction: it streams weights, page by page; it is one function of all consumer warps (a
// group); it is a tile of a GEMM, which all consumer warps multiply and finish together; or it only waits and
// signals.
struct Work {
  enum class Kind : uint8_t { kNothing, kStream, kGroup, kTile };
  Kind kind = Kind::kNothing;

  // For a stream: units of 8 rows of each of `matrices`; their pages lie in panels of columns.
  uint32_t units = 0;
  uint32_t matrices = 1;
  uint32_t cols = 0;
  uint32_t panels = 0;
  // In tile order, a unit is a chain of products, of one matrix or of one part of the columns. This many
  // chains make 8 results. 0: not in tile order.
  uint32_t chains = 0;
  uint64_t input_bytes = 0;  // activations that the preparers load: bf16 or f16
  uint64_t scale_bytes = 0;  // activations that the storers read for the rows' scales: fp32

  // For a group: the bytes that it reads. For a tile: its weights, if it is the first to read them.
  uint64_t bytes = 0;
  bool from_hbm = false;      // else from L2
  bool starts_early = false;  // earlier passes have written what it reads
  uint64_t operations = 0;
  uint64_t pushed_bytes = 0;  // written to memory of other devices

  // For a tile, besides units, matrices and cols.
  uint32_t rows = 0;   // of the pass
  uint32_t slabs = 0;  // of 64 columns
  uint32_t parts = 1;  // of the columns
  uint64_t written_bytes = 0;
  uint32_t weight_rows() const { return units * matrices * kUnitRows; }

  uint32_t unit_pages() const { return matrices * panels; }
  uint64_t pages() const { return uint64_t{units} * unit_pages(); }
  uint32_t page_bytes(uint32_t panel) const;
  bool whole_page(uint32_t panel) const;
};

Work work_of(const Program& program, const Instruction& instruction, const Pass& pass,
             const BlockTable& blocks);

}  // namespace serval::sim
