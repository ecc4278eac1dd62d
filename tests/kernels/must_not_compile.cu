// Mistakes that must not compile, one at a time (SERVAL_CASE), each with the message that the compiler must
// print. Case 0 has no mistake. tests/kernels/must_not_compile.py compiles them.
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::tiles::warpgroup {

struct Memory {
  tiles::SharedTile<Bf16, 64, 64> a;
  tiles::SharedTile<Bf16, 128, 64> b;
  tiles::SharedTile<Fp16, 128, 64> fp16;
  tiles::SharedTile<E4m3, 128, 128> e4m3;
  tiles::SharedTile<Bf16, 64, 64, NoSwizzle> plain;
  tiles::SharedTile<Bf16, 40, 64> forty;
  tiles::SharedTile<Bf16, 64, 64> buffers[2];
};
using Sums = Accumulator<64, 128>;

// clang-format off: a message stays on the line of its case.
__global__ void mistake(Memory* memory,
                        const __grid_constant__ TensorMap<tiles::SharedTile<Bf16, 64, 64>> matrix) {
  [[maybe_unused]] Memory& s = *memory;
  [[maybe_unused]] const Place at = place();
  Sums sums = zeros<Sums>();
#if SERVAL_CASE == 1  // mma: the sums must be moved in: mma_abt_async(std::move(sums), a, b)
  auto products = mma_abt_async(sums, s.a, s.b);
#elif SERVAL_CASE == 2   // products still add to this tile: wait() first
  auto products = mma_abt_async(std::move(sums), s.a, s.b);
  map(products, products, [](float v) { return v; });
#elif SERVAL_CASE == 3   // has no member "part"
  auto products = mma_abt_async(std::move(sums), s.a, s.b);
  products.part[0].quadrant[0][0].x = 1;
#elif SERVAL_CASE == 4   // mma: a left operand in registers must be moved in: std::move(a)
  RegisterTile<Bf16, 64, 64> left;
  load(left, s.a, at);
  auto products = mma_abt_async(std::move(sums), left, s.b);
#elif SERVAL_CASE == 5   // mma: a and b must have the same element type
  auto products = mma_abt_async(std::move(sums), s.a, s.fp16);
#elif SERVAL_CASE == 6   // mma: b must be a shared tile of 128-byte rows with OperandSwizzle
  auto products = mma_abt_async(zeros<Accumulator<64, 64>>(), s.a, s.plain);
#elif SERVAL_CASE == 7   // mma_abt: b must have a row for each column of the sums
  auto products = mma_abt_async(zeros<Accumulator<64, 256>>(), s.a, s.b);
#elif SERVAL_CASE == 8   // mma: a must have the rows of the sums
  auto products = mma_abt_async(zeros<Accumulator<128, 128>>(), s.a, s.b);
#elif SERVAL_CASE == 9   // mma: the sums must have 8, 16, 32, 64, 96, 128, 192 or 256 columns
  auto products = mma_abt_async(zeros<Accumulator<64, 40>>(), s.a, s.forty);
#elif SERVAL_CASE == 10  // mma_ab: the tensor cores take e4m3 only with contiguous terms; use mma_abt
  auto products = mma_ab_async(std::move(sums), rows_of<64>(s.e4m3, 0), s.e4m3);
#elif SERVAL_CASE == 11  // store: convert() sums to a type of 8 or 16 bits first
  tiles::SharedTile<float, 64, 32, OperandSwizzle>& to = reinterpret_cast<decltype(to)>(s.a);
  store(to, zeros<Accumulator<64, 32>>(), at);
#elif SERVAL_CASE == 12  // store_through: a buffer must have the rows of the sums and a part of their columns
  store_through(s.buffers, matrix, 0, 0, zeros<Accumulator<64, 96>>(), at);
#elif SERVAL_CASE == 13  // a warpgroup's tile has a multiple of 64 rows
  fill(*reinterpret_cast<Accumulator<48, 64>*>(memory), 0);
#elif SERVAL_CASE == 14  // cannot be referenced -- it is a deleted function
  auto products = mma_abt_async(std::move(sums), s.a, s.b);
  auto both = products;
#elif SERVAL_CASE == 15  // the operation is for fp32: convert() the tile first
  fill(*reinterpret_cast<RegisterTile<Bf16, 64, 64>*>(memory), 0);
#elif SERVAL_CASE == 16  // load: the array must have an element for each row
  RowVector<Sums> rows;
  load(rows, *reinterpret_cast<const float(*)[32]>(memory), at);
#elif SERVAL_CASE == 17  // settle: the sums must be a warpgroup::Accumulator
  auto products = mma_abt_async(std::move(sums), s.a, s.b);
  settle(products);
#else
  auto products = mma_abt_async(std::move(sums), s.a, s.b);
  products = mma_abt_async(std::move(products), s.a, s.b);
  sums = std::move(products).wait();
  store_through(s.buffers, matrix, 0, 0, sums, at);
#endif
}

}  // namespace serval::tiles::warpgroup
