// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A draw depends only on its key and counter, so neither order nor neighbours change it, on host or
// GPU.
#pragma once

#include <array>
#include <cstdint>

namespace serval {

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{kMultiplier0} * counter[0], b = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// Uniform in [0, 1), a multiple of 2^-24: the draw for the token at `position` of `sequence`.
constexpr float uniform(uint64_t seed, uint32_t sequence, uint32_t position) {
  constexpr int kMantissaBits = 24;
  const auto bits = philox4x32({position, sequence, 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<float>(bits[0] >> (32 - kMantissaBits)) / static_cast<float>(1U << kMantissaBits);
}

}  // namespace serval
