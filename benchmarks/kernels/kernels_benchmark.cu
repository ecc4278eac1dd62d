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
#include "kernels/residual_norm.h"
#include "kernels/rotary.h"
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

void print_gemm(const char* name, const GemmShape& s, const std::vector<std::string>& names,
                const std::vector<double>& ms, double different) {
  const double operations = 2.0 * s.m * s.n * s.k;
  double best = INFINITY;
  for (size_t i = 2; i < ms.size(); ++i) best = std::min(best, ms[i]);
  std::printf("%s %6u x %6u x %6u:", name, s.m, s.n, s.k);
  for (size_t i = 0; i < ms.size(); ++i)
    std::printf("  %s %6.1f", names[i].c_str(), operations / ms[i] * 1e-9);
  std::printf(" TFLOP/s; ratio to cuBLAS %.3f; difference %.4f\n", best / ms[0], different);
  std::fflush(stdout);
}

template <class Element>
void launch_ours(const Element* a, const Element* b, uint16_t* c, const GemmShape& s, bool clusters,
                 cudaStream_t stream) {
  using T = std::conditional_t<sizeof(Element) == 1, tiles::E4m3, tiles::Bf16>;
  const auto *left = reinterpret_cast<const T*>(a), *right = reinterpret_cast<const T*>(b);
  auto* out = reinterpret_cast<tiles::Bf16*>(c);
  if (clusters) {
    kernels::launch_gemm<T, 2>(left, right, out, 1, s, stream);
  } else {
    kernels::launch_gemm<T, 1>(left, right, out, 1, s, stream);
  }
}

void time_bf16(const GemmShape& s) {
  const auto a = random_array<uint16_t>(size_t{s.m} * s.k, 1),
             b = random_array<uint16_t>(size_t{s.n} * s.k, 2);
  const DeviceArray<uint16_t> c(size_t{s.m} * s.n), reference(size_t{s.m} * s.n);
  const CublasBf16 cublas;
  const auto ours = [&](bool clusters) {
    return [&, clusters](cudaStream_t stream) {
      launch_ours(a.data(), b.data(), c.data(), s, clusters, stream);
    };
  };
  const std::vector<double> ms = in_turn({ours(true), ours(false), [&](cudaStream_t stream) {
                                            cublas.run(a.data(), b.data(), reference.data(), s, stream);
                                          }});
  print_gemm("bf16", s, {"clusters", "single", "cuBLAS"}, ms, difference(c, reference));
}

void time_e4m3(const GemmShape& s) {
  const auto a = random_array<uint8_t>(size_t{s.m} * s.k, 1), b = random_array<uint8_t>(size_t{s.n} * s.k, 2);
  const DeviceArray<uint16_t> c(size_t{s.m} * s.n), reference(size_t{s.m} * s.n);
  const CublasLtE4m3 fast(s, true), slow(s, false);
  std::vector<Work> works;
  std::vector<std::string> names;
  for (const bool clusters : {true, false}) {
    works.push_back([&, clusters](cudaStream_t stream) {
      launch_ours(a.data(), b.data(), c.data(), s, clusters, stream);
    });
    names.emplace_back(clusters ? "clusters" : "single");
  }
  for (const auto& [library, name] : {std::pair{&fast, "fast"}, {&slow, "slow"}}) {
    for (size_t i = 0; i < library->algorithms(); ++i) {
      works.push_back([&, library = library, i](cudaStream_t stream) {
        library->run(a.data(), b.data(), reference.data(), i, stream);
      });
      names.push_back(name + std::to_string(i));
    }
  }
  const std::vector<double> ms = in_turn(works, 20);
  print_gemm("e4m3", s, names, ms, difference(c, reference));
}

// Prints the time of work that moves `bytes`, and of a copy that reads and writes as many.
void time_against_copy(const std::string& name, size_t bytes, const Work& work) {
  const size_t half = bytes / 2;
  const DeviceArray<std::byte> from(half), to(half);
  const std::vector<double> ms = in_turn(
      {work, [&](cudaStream_t stream) {
         SERVAL_CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), half, cudaMemcpyDeviceToDevice, stream));
       }});
  const double moved = static_cast<double>(bytes);
  std::printf("%-40s %8.1f us, %5.0f GB/s; copy %5.0f GB/s; ratio to the copy %.3f\n", name.c_str(),
              ms[0] * 1e3, moved / ms[0] * 1e-6, moved / ms[1] * 1e-6, ms[1] / ms[0]);
  std::fflush(stdout);
}

void time_rotary(kernels::RotaryShape s) {
  const size_t count = size_t{s.tokens} * s.heads * s.head_dim;
  const size_t angles = size_t{s.positions} * s.head_dim / 2;
  const auto x = random_array<uint16_t>(count, 1);
  const auto cos = random_array<float>(angles, 2), sin = random_array<float>(angles, 3);
  const DeviceArray<uint16_t> out(count);
  time_against_copy("rotary " + std::to_string(s.tokens) + " x " + std::to_string(s.heads) + " x " +
                        std::to_string(s.head_dim),
                    2 * count * sizeof(uint16_t), [&](cudaStream_t stream) {
                      kernels::rotary(x.data(), cos.data(), sin.data(), out.data(), s, stream);
                    });
}

void time_norm(uint32_t rows, uint32_t width, bool centred) {
  const size_t count = size_t{rows} * width;
  const auto x = random_array<uint16_t>(count, 1), residual = random_array<uint16_t>(count, 2);
  const auto weight = random_array<uint16_t>(width, 3), bias = random_array<uint16_t>(width, 4);
  const DeviceArray<uint16_t> sum(count), out(count);
  const kernels::ResidualNorm arguments{
      x.data(), residual.data(), weight.data(), bias.data(), sum.data(), out.data(), rows, width, 1e-5F};
  time_against_copy((centred ? "residual + layer norm " : "residual + RMS norm ") + std::to_string(rows) +
                        " x " + std::to_string(width),
                    4 * count * sizeof(uint16_t), [&](cudaStream_t stream) {
                      (centred ? kernels::residual_layer_norm : kernels::residual_rms_norm)(arguments,
                                                                                            stream);
                    });
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
    for (const bool centred : {false, true}) {
      for (const uint32_t width : {1024U, 2048U, 4096U, 8192U})
        time_norm((256U << 20) / width, width, centred);
    }
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
