// Converts blocks of ggml's types to fp32, as GgmlType::decode states. In the comments, d and m are a block's
// fp16 scale and minimum, and q are its integers.
#pragma once

#include <cstddef>

namespace serval {

void decode_f32(const std::byte* first_block, size_t blocks, float* out);
void decode_f16(const std::byte* first_block, size_t blocks, float* out);
void decode_bf16(const std::byte* first_block, size_t blocks, float* out);

// Blocks of 32 elements.
void decode_q8_0(const std::byte* first_block, size_t blocks, float* out);  // d q, q of 8 bits, signed
void decode_q4_0(const std::byte* first_block, size_t blocks, float* out);  // d (q − 8)
void decode_q4_1(const std::byte* first_block, size_t blocks, float* out);  // d q + m
void decode_q5_0(const std::byte* first_block, size_t blocks, float* out);  // d (q − 16)
void decode_q5_1(const std::byte* first_block, size_t blocks, float* out);  // d q + m

// Blocks of 256 elements. Each group of 16 or 32 elements has a scale s and in some types a minimum n.
void decode_q2_k(const std::byte* first_block, size_t blocks, float* out);  // (d s) q − (m n)
void decode_q3_k(const std::byte* first_block, size_t blocks, float* out);  // (d (s − 32)) (q − 4)
void decode_q4_k(const std::byte* first_block, size_t blocks, float* out);  // (d s) q − (m n)
void decode_q5_k(const std::byte* first_block, size_t blocks, float* out);  // (d s) q − (m n)
void decode_q6_k(const std::byte* first_block, size_t blocks, float* out);  // (d s) (q − 32)

}  // namespace serval
