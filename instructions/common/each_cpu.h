// Compiles host kernels for the vector width of the CPU that they run on.
#pragma once

// Functions are compiled for several vector widths, and one version is chosen when the program starts. Not
// with sanitizers, whose run times are not ready at that time, nor with clang 14, which lacks the syntax:
// these use the baseline, with the same results.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SERVAL_PICKS_CPU 1
#define SERVAL_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SERVAL_PICKS_CPU 0
#define SERVAL_FOR_EACH_CPU
#endif
#define SERVAL_INLINE inline __attribute__((always_inline))
