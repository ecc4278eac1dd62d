// The kernels of kernels/ beside cuBLAS or a copy of the same bytes, in turn in one run. Compares results
// before it times them.
//
// usage: kernels_benchmark [NAME]...   names: bf16 e4m3 rotary norm; all of them if none is given
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "benchmarks/kernels/gemm_libraries.h"
#include "benchmarks/kernels/in_turn.h"
#include "kernels/gemm_launch.cuh"
#include "kernels/residual_norm.cuh"
#include "kernels/rotary.cuh"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/device/device_array.h"

namespace serval::benchmarks {
namespace {

using kernels::GemmShape;

// Values from -1 to 1, a hash of their place.
template <class T>
__global__ void fill(T* to, size_t count, uint32_t seed) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    uint32_t z = static_cast<uint32_t>(i) * 0x9E3779B9U + seed;
    z = (z ^ z >> 16) * 0x85EBCA6BU;
    z = (z ^ z >> 13) * 0xC2B2AE35U;
    const float v = static_cast<float>((z ^ z >> 16) >> 8) * 0x1p-23F - 1;
    if constexpr (sizeof(T) == 1) {
      to[i] = float_to_e4m3(v);
    } else if constexpr (sizeof(T) == 2) {
      to[i] = float_to_bf16(v);
    } else {
      to[i] = v;
    }
  }
}
template <class T>
DeviceArray<T> random_array(size_t count, uint32_t seed) {
  DeviceArray<T> out(count);
  fill<<<1024, 256>>>(out.data(), count, seed);
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  return out;
}

// Largest difference of the first results, as a share of their root mean square.
double difference(const DeviceArray<uint16_t>& a, const DeviceArray<uint16_t>& b) {
  const size_t count = std::min<size_t>(a.size(), size_t{1} << 22);
  std::vector<uint16_t> x(count), y(count);
  SERVAL_CUDA_CHECK(cudaMemcpy(x.data(), a.data(), count * 2, cudaMemcpyDeviceToHost));
  SERVAL_CUDA_CHECK(cudaMemcpy(y.data(), b.data(), count * 2, cudaMemcpyDeviceToHost));
  double most = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) {
    const double v = static_cast<double>(bf16_to_float(x[i])), w = static_cast<double>(bf16_to_float(y[i]));
    most = std::isnan(v) ? INFINITY : std::max(most, std::abs(v - w));
    squares += w * w;
  }
  return most / std::sqrt(squares / static_cast<double>(count));
}

// Named pieces of work.
struct Candidates {
  std::vector<std::string> names;
  std::vector<Work> works;

  void add(const std::string& name, Work work) {
    names.push_back(name);
    works.push_back(std::move(work));
  }
};
// A line for each product; the last `libraries` of them are the reference.
void print_gemm(const char* type, const GemmShape& s, const Candidates& candidates,
                const std::vector<double>& ms, size_t libraries) {
  const double operations = 2.0 * s.m * s.n * s.k;
  const double best = *std::min_element(ms.end() - static_cast<ptrdiff_t>(libraries), ms.end());
  for (size_t i = 0; i < ms.size(); ++i) {
    std::printf("%s %5u x %5u x %5u  %-30s %7.1f TFLOP/s, ratio to cuBLAS %.3f\n", type, s.m, s.n, s.k,
                candidates.names[i].c_str(), operations / ms[i] * 1e-9, best / ms[i]);
  }
  std::fflush(stdout);
}
// Power decides the speed of large products.
constexpr Pace kSteady = {.timed_ms = 60, .lead_in_ms = 60, .rounds = 7};

// Operands and results of a product.
template <class Element>
struct Product {
  GemmShape shape;
  DeviceArray<Element> a, b;
  DeviceArray<uint16_t> c, reference;

  explicit Product(const GemmShape& s)
      : shape(s),
        a(random_array<Element>(size_t{s.m} * s.k, 1)),
        b(random_array<Element>(size_t{s.n} * s.k, 2)),
        c(size_t{s.m} * s.n),
        reference(size_t{s.m} * s.n) {}

  template <uint32_t kBlocks>
  Work ours(bool overlaps) const {
    using T = std::conditional_t<sizeof(Element) == 1, tiles::E4m3, tiles::Bf16>;
    return [this, overlaps](cudaStream_t stream) {
      kernels::launch_gemm<T, kBlocks>(reinterpret_cast<const T*>(a.data()),
                                       reinterpret_cast<const T*>(b.data()),
                                       reinterpret_cast<tiles::Bf16*>(c.data()), 1, shape, stream, overlaps);
    };
  }
  // Runs each of ours and prints how far its results are from the reference.
  void compare(const Candidates& all, const Work& library, size_t libraries) const {
    const CudaStream stream;
    library(stream.get());
    for (size_t i = 0; i + libraries < all.works.size(); ++i) {
      SERVAL_CUDA_CHECK(cudaMemset(c.data(), 0xFF, c.size() * sizeof(uint16_t)));
      all.works[i](stream.get());
      SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
      std::printf("  %s: difference %.4f\n", all.names[i].c_str(), difference(c, reference));
    }
  }
};

void time_bf16(const GemmShape& s) {
  const Product<uint16_t> product(s);
  const CublasBf16 cublas;
  Candidates all;
  all.add("clusters", product.ours<2>(true));
  all.add("clusters, no overlap", product.ours<2>(false));
  all.add("single", product.ours<1>(true));
  all.add("cuBLAS", [&](cudaStream_t stream) {
    cublas.run(product.a.data(), product.b.data(), product.reference.data(), s, stream);
  });
  product.compare(all, all.works.back(), 1);
  print_gemm("bf16", s, all, in_turn(all.works, kSteady), 1);
}

// Adds the fastest of the library's algorithms.
void add_best(const CublasLtE4m3& library, const char* name, const Product<uint8_t>& product,
              Candidates& to) {
  std::vector<Work> works;
  for (size_t i = 0; i < library.algorithms(); ++i) {
    works.emplace_back([&library, &product, i](cudaStream_t stream) {
      library.run(product.a.data(), product.b.data(), product.reference.data(), i, stream);
    });
  }
  const std::vector<double> ms = in_turn(works, {.timed_ms = 25, .lead_in_ms = 25, .rounds = 3});
  const auto best = static_cast<size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin());
  to.add("cublasLt " + std::string(name) + ", algorithm " + std::to_string(best) + " of " +
             std::to_string(works.size()),
         works[best]);
}
void time_e4m3(const GemmShape& s) {
  const Product<uint8_t> product(s);
  const CublasLtE4m3 fast(s, true), slow(s, false);
  Candidates all;
  all.add("clusters", product.ours<2>(true));
  all.add("single", product.ours<1>(true));
  all.add("single, no overlap", product.ours<1>(false));
  add_best(fast, "fast sums", product, all);
  add_best(slow, "slow sums", product, all);
  product.compare(all, all.works.back(), 2);
  print_gemm("e4m3", s, all, in_turn(all.works, kSteady), 2);
}

// Prints for each candidate the time of work that moves `bytes`, and that of a copy of as many.
void time_against_copy(const std::string& name, size_t bytes, Candidates all) {
  const size_t half = bytes / 2;
  const DeviceArray<std::byte> from(half), to(half);
  all.add("copy", [&](cudaStream_t stream) {
    SERVAL_CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), half, cudaMemcpyDeviceToDevice, stream));
  });
  const std::vector<double> ms = in_turn(all.works);
  for (size_t i = 0; i < ms.size(); ++i) {
    std::printf("%-34s %-28s %8.1f us, %5.0f GB/s; ratio to the copy %.3f\n", name.c_str(),
                all.names[i].c_str(), ms[i] * 1e3, static_cast<double>(bytes) / ms[i] * 1e-6,
                ms.back() / ms[i]);
  }
  std::fflush(stdout);
}

template <uint32_t kHeadDim>
Candidates rotary_candidates(const kernels::RotaryArguments& g) {
  using kernels::launch_rotary;
  Candidates all;
  all.add("8 a thread", [g](cudaStream_t s) { launch_rotary<kHeadDim, 8>(g, s); });
  all.add("8 a thread, no overlap", [g](cudaStream_t s) { launch_rotary<kHeadDim, 8>(g, s, false); });
  all.add("4 a thread", [g](cudaStream_t s) { launch_rotary<kHeadDim, 4>(g, s); });
  return all;
}
void time_rotary(kernels::RotaryShape s) {
  const size_t count = size_t{s.tokens} * s.heads * s.head_dim;
  const size_t angles = size_t{s.positions} * s.head_dim / 2;
  const auto x = random_array<uint16_t>(count, 1);
  const auto cos = random_array<float>(angles, 2), sin = random_array<float>(angles, 3);
  const DeviceArray<uint16_t> out(count);
  const kernels::RotaryArguments g =
      kernels::rotary_arguments(x.data(), cos.data(), sin.data(), out.data(), s);
  time_against_copy("rotary " + std::to_string(s.tokens) + " x " + std::to_string(s.heads) + " x " +
                        std::to_string(s.head_dim),
                    2 * count * sizeof(uint16_t),
                    s.head_dim == 64 ? rotary_candidates<64>(g) : rotary_candidates<128>(g));
}

template <bool kCentred>
void time_norm(uint32_t rows, uint32_t width) {
  using kernels::launch_norm;
  const size_t count = size_t{rows} * width;
  const auto x = random_array<uint16_t>(count, 1), residual = random_array<uint16_t>(count, 2);
  const auto weight = random_array<uint16_t>(width, 3), bias = random_array<uint16_t>(width, 4);
  const DeviceArray<uint16_t> sum(count), out(count);
  const kernels::ResidualNorm g{x.data(), residual.data(), weight.data(), bias.data(), sum.data(), out.data(),
                                rows,     width,           1e-5F};
  Candidates all;
  all.add("a row ahead", [&](cudaStream_t s) { launch_norm<kCentred, true>(g, s); });
  all.add("a row a block", [&](cudaStream_t s) { launch_norm<kCentred, false>(g, s); });
  time_against_copy(
      (kCentred ? "layer norm " : "RMS norm ") + std::to_string(rows) + " x " + std::to_string(width),
      4 * count * sizeof(uint16_t), all);
}

void run_all(const std::vector<std::string>& names) {
  const auto wanted = [&](const char* name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const uint32_t size : {4096U, 8192U, 16384U}) {
    if (wanted("bf16")) time_bf16({size, size, size});
  }
  if (wanted("bf16")) time_bf16({2048, 6144, 4096});
  for (const uint32_t size : {4096U, 8192U, 16384U}) {
    if (wanted("e4m3")) time_e4m3({size, size, size});
  }
  if (wanted("rotary")) {
    time_rotary({32768, 32, 128, 4096});
    time_rotary({32768, 32, 64, 4096});
    time_rotary({8192, 32, 128, 8192});
  }
  if (wanted("norm")) {
    for (const uint32_t width : {1024U, 2048U, 4096U, 8192U}) time_norm<false>((256U << 20) / width, width);
    for (const uint32_t width : {1024U, 4096U, 8192U}) time_norm<true>((256U << 20) / width, width);
  }
}

}  // namespace
}  // namespace serval::benchmarks

int main(int argc, char** argv) {
  try {
    serval::benchmarks::run_all(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const serval::Error& error) {
    std::fprintf(stderr, "kernels_benchmark: %s\n", error.what());
    return error.exit_code();
  }
  return 0;
}
