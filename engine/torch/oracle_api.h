/* The C interface of libserval_torch.so, the eager Llama in LibTorch that is the reference for
 * Serval's results.
 *
 * The executable loads the plugin with dlopen and asks for one symbol, serval_oracle_api; LibTorch itself is
 * linked by the plugin only. No exception crosses this interface and no type of C++ is in it, so the two
 * sides may be built by different compilers. Functions that return a status leave one line of explanation in
 * last_error() of the calling thread. One oracle is used by one thread at a time; different oracles are
 * independent.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with every change of this file: both sides must have been built from the same one. */
#define SERVAL_ORACLE_ABI_VERSION 5u
#define SERVAL_ORACLE_ENTRY "serval_oracle_api"

/* Values are the executable's exit codes. */
typedef enum ServalOracleStatus {
  SERVAL_ORACLE_OK = 0,
  SERVAL_ORACLE_FAILED = 1,
  SERVAL_ORACLE_OUT_OF_MEMORY = 3
} ServalOracleStatus;

/* FP32: weights widened, everything computed in fp32. BF16: weights and activations in bf16, rounded where a
 * PyTorch model in bf16 rounds them (the residual stream and the logits too). */
typedef enum ServalOracleDtype { SERVAL_ORACLE_FP32 = 0, SERVAL_ORACLE_BF16 = 1 } ServalOracleDtype;
typedef enum ServalOracleDevice { SERVAL_ORACLE_CPU = 0, SERVAL_ORACLE_CUDA = 1 } ServalOracleDevice;

/* A matrix under Hugging Face's name, as "model.layers.0.mlp.up_proj.weight". A norm has one row. The memory
 * must stay until the oracle is destroyed: bf16 on the CPU reads it in place. One of bf16 and codes is
 * NULL. An element of codes is its code's value times its row's fp32 scale, rounded to fp32. */
typedef struct ServalOracleWeight {
  const char* name;
  const uint16_t* bf16; /* [rows, cols], row-major */
  int64_t rows;
  int64_t cols;
  const uint8_t* codes; /* [rows] of codes and scales (vm/layout/weight_rows.h) */
  uint8_t dtype;        /* of the codes: a DType (vm/dtype.h) */
} ServalOracleWeight;

/* What stretches RoPE's wavelengths: transformers' "default", "linear", "llama3" and "yarn". */
typedef enum ServalOracleRope {
  SERVAL_ORACLE_ROPE_DEFAULT = 0,
  SERVAL_ORACLE_ROPE_LINEAR = 1,
  SERVAL_ORACLE_ROPE_LLAMA3 = 2,
  SERVAL_ORACLE_ROPE_YARN = 3
} ServalOracleRope;

typedef struct ServalOracleConfig {
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_layers;
  int64_t num_heads;
  int64_t num_kv_heads;
  int64_t head_dim;
  int64_t vocab_size;
  double rms_norm_eps;
  double rope_theta;
  double rope_attention_factor; /* multiplies cosines and sines */
  const double* rope_divisors;  /* [head_dim / 2] divide the frequencies before they are stretched, or NULL;
                                   read by create */
  ServalOracleRope rope_type;
  double rope_factor;                 /* LINEAR, LLAMA3, YARN */
  int64_t rope_original_max_position; /* LLAMA3, YARN: tokens */
  double rope_low_freq_factor;        /* LLAMA3 */
  double rope_high_freq_factor;       /* LLAMA3 */
  double rope_beta_fast;              /* YARN */
  double rope_beta_slow;              /* YARN */
  int32_t rope_truncate;              /* YARN */

  int64_t cache_cells; /* tokens that the KV cache holds, over all sequences */
  ServalOracleDtype dtype;
  ServalOracleDevice device;
  int32_t threads; /* of the CPU, in the whole process; 0: LibTorch's choice */
} ServalOracleConfig;

/* Consecutive tokens of one sequence. The cache is addressed by cells, one for the keys and values of one
 * position, which the caller assigns: 0, 1, 2 … for a single sequence, or through a block table. */
typedef struct ServalOracleTokens {
  const int32_t* tokens; /* [count] ids in the vocabulary */
  int64_t count;         /* at least 1 */
  int64_t first_position;
  const int64_t* cells; /* [first_position + count]; earlier positions' cells were written by earlier calls */
  int64_t num_logits;   /* number of last tokens that want logits, 0 to count */
} ServalOracleTokens;

/* A decoding step to be timed: each of `batch` sequences, with `context` positions in the cache, gets one
 * more token. */
typedef struct ServalOracleReplay {
  int64_t batch;
  int64_t context;
  int64_t replays; /* number of runs that are averaged, at least 1 */
} ServalOracleReplay;

typedef struct ServalOracle ServalOracle;

typedef struct ServalOracleApi {
  uint32_t abi_version;
  const char* (*library)(void); /* "LibTorch 1.13.1" */
  int32_t (*cuda_available)(void);
  const char* (*last_error)(void); /* of the calling thread, until its next call */

  ServalOracleStatus (*create)(const ServalOracleConfig* config, const ServalOracleWeight* weights,
                               size_t num_weights, ServalOracle** oracle);
  /* Writes fp32 logits [num_logits, vocab_size]. */
  ServalOracleStatus (*forward)(ServalOracle* oracle, const ServalOracleTokens* tokens, float* logits);
  /* Captures the step as a CUDA graph, with a separate cache, and writes the time of a replay. The oracle
   * must be on a GPU. */
  ServalOracleStatus (*time_replay)(ServalOracle* oracle, const ServalOracleReplay* replay,
                                    double* microseconds);
  void (*destroy)(ServalOracle* oracle); /* NULL is fine */
} ServalOracleApi;

/* The one exported symbol. */
const ServalOracleApi* serval_oracle_api(void);

#ifdef __cplusplus
}
#endif
