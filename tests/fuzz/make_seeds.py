#!/usr/bin/env python3
"""Writes the seeds of the fuzz corpora: small valid files of each kind, made with the tests' helpers.

usage: tests/fuzz/make_seeds.py [SERVAL]     the executable compiles the programs; default: build/bin/serval

Run it when a format changes. It does not change the inputs that fuzzers have found.
"""

import gzip
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import tiny_gguf  # noqa: E402
import tiny_model  # noqa: E402
import tiny_quantised  # noqa: E402

NUL = b"\0"


def write(target, name, *parts):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(NUL.join(p if isinstance(p, bytes) else p.encode() for p in parts))


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def safetensors():
    def entry(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    two = compact({"a": entry("F32", [2, 1], 0, 8), "b": entry("BF16", [3], 8, 14)})
    typed = compact(
        {
            "__metadata__": {"format": "pt"},
            "scalar": entry("F64", [], 0, 8),
            "empty": entry("I8", [0, 7], 8, 8),
            "é\n": entry("F8_E4M3", [1, 1, 2], 8, 10),
        }
    )
    for name, header, size in (("two", two, 14), ("typed", typed, 10), ("none", "{}", 0)):
        write("safetensors", f"{name}-header", header.encode() + bytes(size))
        write("safetensors", name, len(header.encode()).to_bytes(8, "little") + header.encode() + bytes(size))
    header, _ = tiny_model.safetensors_header(tiny_model.config())
    write("safetensors", "model-truncated", compact(header))


def gguf():
    shape = {"block_count": 1, "context_length": 64, "embedding_length": 64, "feed_forward_length": 32}
    shape |= {"attention.head_count": 1, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e4}
    fields = {"general.architecture": "llama"} | {f"llama.{key}": value for key, value in shape.items()}
    bpe = {"model": "gpt2", "pre": "llama-bpe", "merges": ["a b", "Ġ ab"], "bos_token_id": 5, "add_bos_token": True}
    bpe |= {"tokens": ["a", "b", "Ġ", "ab", "Ġab", "<|end|>"], "token_type": [1, 1, 1, 1, 1, 3]}
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    scored = {"model": "llama", "tokens": pieces, "scores": [-float(i) for i in range(len(pieces))], "bos_token_id": 1}
    scored |= {"token_type": [2, 3] + [6] * 256 + [1] * 3, "add_space_prefix": True}
    for name, tokens in (("bpe", bpe), ("sentencepiece", scored)):
        vocabulary = {f"tokenizer.ggml.{key}": value for key, value in tokens.items()}
        template = {"tokenizer.chat_template": "{{ messages[0].content }}<|end|>"}
        model = tiny_gguf.File(fields | vocabulary | template)
        model.tensor("token_embd.weight", 1, [6, 64], bytes(768))
        model.tensor("rope_freqs.weight", 0, [32], struct.pack("<32f", *[8.0] * 32))
        write("gguf", name, model.bytes())
    rope = {"type": "yarn", "factor": 2.0, "original_context_length": 32, "attn_factor": 1.25, "yarn_beta_fast": 8.0}
    model = tiny_gguf.File(fields | {f"llama.rope.scaling.{key}": value for key, value in rope.items()})
    model.tensor("token_embd.weight", 1, [6, 64], bytes(768))
    write("gguf", "rope", model.bytes())
    types = tiny_gguf.File({"general.alignment": 32})
    for kind, elements, size in ((0, 1, 4), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84),
                                 (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (30, 1, 2)):  # fmt: skip
        types.tensor(f"t{kind}", kind, [2, elements], bytes(range(size)) * 2)
    write("gguf", "types", types.bytes())


def index():
    names = ["model.embed_tokens.weight", "model.norm.weight", "é"]
    shards = {n: f"model-{i + 1:05}-of-00003.safetensors" for i, n in enumerate(names)}
    write("index", "three-shards", compact({"metadata": {"total_size": 96}, "weight_map": shards}))
    write("index", "another-folder", compact({"weight_map": {"a": "../x.safetensors"}}))


def config():
    generation = compact({"bos_token_id": 3, "eos_token_id": [4, 5], "temperature": 0.6, "top_p": 0.9, "top_k": 40})
    write("config", "tiny", compact(tiny_model.config()), generation)
    write("config", "greedy", compact(tiny_model.config(head_dim=None)), compact({"do_sample": False}))
    preset = json.loads((ROOT / "configs" / "llama-3.2-1b.json").read_text())
    write("config", "llama-3.2-1b", compact(preset), compact({"repetition_penalty": 1.1}))
    scaling = {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 1}
    write("config", "rope-parameters", compact(tiny_model.config(rope_parameters=scaling)))
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "mscale": 0.7, "mscale_all_dim": 1}
    write("config", "rope-yarn", compact(tiny_model.config(rope_scaling=yarn | {"beta_fast": 16, "truncate": False})))
    both = {"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"type": "linear", "factor": 2}}
    for name, (file, quantisation, _) in tiny_quantised.FORMATS.items():
        if file == "config.json":
            write("config", f"quantised-{name}", compact(tiny_model.config(quantization_config=quantisation)))
    write("config", "rope-both", compact(tiny_model.config(**both, gguf_rope={"attention_factor": 1.5, "divisors": [2.0] * 32})))


def quantised():
    """One matrix of 16 × 64 in each format, as quantised_target.cc reads it."""
    rows, cols, module = 16, 64, "model.layers.0.mlp.up_proj"
    for name, (_, quantisation, make) in tiny_quantised.FORMATS.items():
        header, data = {}, b""
        for part, (dtype, shape, content) in make(random.Random(name), rows, cols)[1].items():
            header[f"{module}.{part}"] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        data = data.replace(b"}", b"|")  # the last brace ends the header
        method = {"quant_method": "modelopt"} if name == "modelopt" else {}  # the name of its file says it
        write("quantised", name, compact(method | quantisation), compact(header).encode() + data)


def tokenizer():
    alphabet = tiny_model.byte_alphabet()
    special = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|endoftext|>"}}
    write("tokenizer", "bytes", compact(tiny_model.tokenizer()), compact(special), "héllo <|im_end|>\xff")
    # Few tokens, so that most mutations change the settings and not the vocabulary.
    small = tiny_model.tokenizer()
    small["model"]["vocab"] = {alphabet[b]: i for i, b in enumerate(b"ab c1")} | {"ab": 10, "Ġab": 11}
    small["model"]["merges"] = ["a b", ["Ġ", "ab"]]
    small["model"] |= {"unk_token": "c", "fuse_unk": True, "ignore_merges": True}
    small["added_tokens"][1] |= {"id": 30, "special": False, "lstrip": True, "single_word": True, "normalized": True}
    small["added_tokens"] = small["added_tokens"][:2]
    write("tokenizer", "small", compact(small), "", "ab c1 ab<|im_start|> ab")
    added = {"40": {"content": "<x>", "rstrip": True, "special": True}, "10": {"content": "ab", "special": False}}
    beside = {"added_tokens_decoder": added, "eos_token": "<x>", "additional_special_tokens": ["c"], "add_eos_token": True}
    write("tokenizer", "added", compact(small), compact(beside), "ab<x>  ab c")
    pattern = {"type": "Split", "pattern": {"Regex": r"\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"}, "behavior": "Isolated"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False}
    steps = [pattern | {"invert": True}, {"type": "Digits", "individual_digits": True}]
    steps += [{"type": "Punctuation", "behavior": "MergedWithNext"}, byte_level]
    small["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    pieces = [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    around = {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [256], "tokens": ["<|endoftext|>"]}}
    small["post_processor"] = {"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": around}
    write("tokenizer", "steps", compact(small), "", "a  b\n\nab 123456!?c")
    literal = [{"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}, byte_level]
    small["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": literal}
    small["post_processor"] = {"type": "ByteLevel", "trim_offsets": False}
    write("tokenizer", "literal", compact(small), "", "a b  ab")
    slow = pattern | {"pattern": {"Regex": "(a*)*c"}}
    small["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [slow, byte_level]}
    write("tokenizer", "slow-pattern", compact(small), "", "a" * 40)


def chat():
    def conversation(switches, *parts):
        return bytes([switches]) + NUL.join(p if isinstance(p, bytes) else p.encode() for p in parts)

    hello = ("system", " Be brief. ", "user", "Héllo, <|eot_id|> 1234?", "assistant", "\tYes.\n")
    llama3 = "{{ bos_token }}<|start_header_id|>{{ role }}<|end_header_id|><|eot_id|>"
    write("chat", "llama3", conversation(1, llama3, *hello))
    write("chat", "chatml", conversation(2, tiny_model.CHATML, *hello))
    write("chat", "broken-utf8", conversation(3, "", "user", b"\xf0\x9f\xa6\xff\xed\xa0\x80\xc3", "user", "🦊\u2028 x"))
    write("chat", "bad-role", conversation(0, "", "<|user|>", "x"))


def body():
    """The first byte selects the path."""
    message = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    sampling = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": -1, "n": 2, "stop": ["x"]}
    streamed = {"stream": True, "stream_options": {"include_usage": True}, "logprobs": 0, "user": "ann"}
    write("body", "completion", "\x00" + compact({"model": "model", "prompt": "Hi", **sampling}))
    write("body", "prompts", "\x00" + compact({"prompt": [[1, 2], [3]], "max_tokens": 1, **streamed}))
    write("body", "chat", "\x01" + compact({"messages": [message], "max_completion_tokens": 5, "tools": []}))
    write("body", "tokenize", "\x02" + compact({"prompt": "Hi"}))
    asked = {"input": [{**message, "content": [{"type": "input_text", "text": "a"}]}], "instructions": "b", "stream": True}
    write("body", "response", "\x04" + compact({**asked, "text": {"format": {"type": "json_object"}}}))
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    write("body", "json", "\x01" + compact({"messages": [message], "response_format": schema}))
    write("body", "detokenize", "\x03" + compact({"tokens": [1, 2, 3]}))
    write("body", "embeddings", "\x05" + compact({"input": ["Hi", "Ho"], "encoding_format": "base64", "dimensions": 8}))


def schema():
    """A schema, and bytes that choose the tokens of a text."""
    tree = {"type": "object", "properties": {"v": {"type": "integer"}, "n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
    word = {"type": "string", "pattern": "^(?:[a-c]|\\d{2})+x?$", "minLength": 2, "maxLength": 9}
    listed = {"prefixItems": [{"enum": ["a", 1, None]}, {"const": {"k": []}}], "items": False, "minItems": 1}
    open_ended = {"properties": {"ab": {"format": "date"}}, "required": ["ab"], "additionalProperties": {"type": "number"}}
    counted = {"type": "array", "items": {"type": ["boolean", "string"], "maxLength": 3}, "minItems": 2, "maxItems": 400}
    bounded = {"items": {"type": "number", "minimum": -2.5, "exclusiveMaximum": 1e3, "multipleOf": 0.25}, "maxItems": 3}
    tag = {"kind": {"const": "a"}, "n": {"type": "integer", "exclusiveMinimum": 7}}
    tagged = {"oneOf": [{"type": "object", "properties": tag}, {"type": "object", "properties": {"kind": {"const": "b"}}}]}
    tagged["discriminator"] = {"propertyName": "kind"}
    joined = {"allOf": [{"$ref": "#/$defs/s"}, {"format": "email"}], "$defs": {"s": {"pattern": "^a|b$", "maxLength": 30}}}
    picks = bytes(range(0, 250, 7)) * 4
    named = {"bounded": bounded, "tagged": tagged, "joined": joined}
    named |= {"tree": tree, "word": word, "listed": listed, "open": open_ended, "counted": counted, "any": True}
    for name, seed in named.items():
        write("schema", name, compact(seed), picks)
    write("schema", "refused", compact({"properties": {"a": {"oneOf": [{}, {}]}}}))


def gbnf():
    """A grammar, and bytes that choose the tokens of a text."""
    picks = bytes(range(0, 250, 7)) * 4
    for path in sorted((ROOT / "tests" / "data" / "grammar" / "gbnf").glob("*.gbnf")):
        write("gbnf", path.stem, path.read_text(), picks)
    write("gbnf", "empty-repeated", 'root ::= ("a"? "b"*){2,3} ("" | "c")* "d"\n', picks)
    write("gbnf", "nested", 'root ::= "(" root ")" | [^()] root? | x{0,9}\nx ::= "12" | .\n', picks)
    write("gbnf", "left-recursion", 'root ::= a "x"\na ::= "y"? root | "z"\n')
    write("gbnf", "undefined", "root ::= a | b\na ::= [\\x41-\\u00e9\\U0001F600]\n")


def http():
    """The first byte says where the other bytes are divided in two pieces."""
    lines = "Host: x\r\n"
    write("http", "get", "\x40GET /health HTTP/1.1\r\n" + lines + "\r\n")
    write("http", "post", "\x40POST /p HTTP/1.1\r\n" + lines + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nabcde")
    write("http", "chunked", "\x7fPOST /p HTTP/1.1\r\n" + lines + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nA: b\r\n\r\n")
    asks = "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: a, b\r\n"
    write("http", "preflight", "\x40OPTIONS http://h/a%2Fb HTTP/1.1\r\n" + lines + asks + "X-Request-Id: 1\r\n\r\n")
    write("http", "pipelined", "\x60" + 2 * ("GET / HTTP/1.1\r\n" + lines + "\r\n") + "GET / HTTP/1.0\r\n\r\n")


def jinja():
    message = {"role": "user", "content": "Hi <|eot_id|>", "tool_calls": [{"name": "f", "arguments": {"a": [1, None]}}]}
    variables = compact({"messages": [message], "add_generation_prompt": True, "bos_token": "<s>", "tools": None})
    for path in sorted((ROOT / "tests" / "data" / "chat_templates").glob("*.jinja")):
        write("jinja", path.stem, path.read_text(), variables)


# docs/profiling.md describes the format.
EVENTS = ["fetch_begin", "fetched", "load_begin", "load_issued", "first_landed", "last_landed", "wait_begin"]
EVENTS += ["inputs_ready", "prepared", "compute_begin", "compute_end", "store_begin", "stored", "signalled"]


class TraceFile:
    """SM 0's instruction waits for that of SM 1 and opens the gate; one token of 100 ns."""

    def __init__(self):
        name = {"name": "SM 0 controller"}
        self.events = [{"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": name}]
        self.executions = []

    def slice(self, sm, role, begin, end, name):
        place = {"pid": 1, "tid": 1 + 5 * sm + role}
        self.events.append({"ph": "X", **place, "ts": begin / 1000, "dur": (end - begin) / 1000, "name": name})

    def flow(self, phase, sm, role, at, **more):
        place = {"pid": 1, "tid": 1 + 5 * sm + role}
        self.events.append({"ph": phase, **place, "ts": at / 1000, "id": 0, "name": "c0", **more})

    def execute(self, instruction, sm, last_counter, **times):
        at = [times.get(event, -1) for event in EVENTS]
        self.executions.append([instruction, 0, sm, last_counter, 4096, 0, 0, *at])

    def text(self):
        machine = {"name": "toy", "sms": 2, "pages_per_sm": 4, "gb_per_s": 10, "sm_gb_per_s": 5}
        machine |= {"sm_gflop_per_s": 1, "synchronise_us": 1, "instruction_us": 0.5}
        head = {"format": 1, "source": "device", "metadata": {"model": "é"}, "machine": machine}
        head |= {"global_queue": False}
        head |= {"gate_counter": 1, "increments_per_pass": [1, 1], "ops": ["a", "b"], "events": EVENTS}
        head |= {"windows": [[0, 0, 100]], "waits": [[0, 1, 1]], "signals": [[1, 1], [0, 1]]}
        instructions = [[0, 3, 0, 0, 4096, 2, 0, 1, 0, 1, "a"], [1, 65535, 1, 0, 4096, 2, 1, 0, 1, 1, "b"]]
        root = {"displayTimeUnit": "ns", "traceEvents": self.events, "serval": head}
        root |= {"servalInstructions": instructions, "servalExecutions": self.executions}
        return compact(root | {"servalSamples": [[5, 0, 16384, 3]]})


def trace():
    file = TraceFile()
    ready = {"wait_begin": 10, "inputs_ready": 50, "prepared": 60}
    done = {"store_begin": 90, "stored": 95, "signalled": 100}
    file.execute(0, 0, 0, compute_begin=60, compute_end=90, **ready, **done)
    ready = {"load_begin": 0, "last_landed": 8, "inputs_ready": 5, "prepared": 6}
    done = {"store_begin": 30, "stored": 35, "signalled": 40}
    file.execute(1, 1, -1, compute_begin=10, compute_end=30, **ready, **done)
    slices = {
        0: [(2, 10, 50, "wait a"), (2, 50, 60, "load a"), (3, 0, 50, "wait a"), (3, 50, 60, "load a")],
        1: [(1, 0, 8, "load b"), (2, 5, 6, "load b"), (3, 0, 5, "wait b"), (3, 5, 10, "load b")],
    }
    slices[0] += [(3, 60, 90, "a"), (4, 90, 95, "store a"), (4, 95, 100, "signal a")]
    slices[1] += [(3, 10, 30, "b"), (4, 30, 35, "store b"), (4, 35, 40, "signal b")]
    for sm, of_sm in slices.items():
        for one in of_sm:
            file.slice(sm, *one)
    file.flow("s", 1, 4, 39)
    file.flow("f", 0, 2, 49, bp="e")
    file.events.append({"ph": "C", "pid": 1, "ts": 0, "name": "GB/s", "args": {"value": 40.96}})
    write("trace", "two-sms", file.text())
    write("trace", "compressed", gzip.compress(file.text().encode(), mtime=0))


def program(serval):
    compilations = {
        "one-sm": ["--sms", "1", "--policy", "list", "-c", "64"],
        "two-sms": ["--sms", "2", "--policy", "round-robin", "-c", "600"],
        "global-queue": ["--sms", "2", "--queue", "global", "-c", "64"],
        "two-ranks": ["--sms", "1", "--gpus", "2", "--policy", "list", "-c", "64"],
    }
    with tempfile.TemporaryDirectory() as folder:
        tiny_model.write(folder, weights=False, max_position_embeddings=1024)  # has 2 heads, one for each of 2 ranks
        for name, flags in compilations.items():
            file = pathlib.Path(folder) / "program"
            command = [serval, "schedule", "-m", folder, *flags, "-o", str(file)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            write("program", name, file.read_bytes())


def main():
    safetensors()
    schema()
    gbnf()
    gguf()
    index()
    config()
    quantised()
    tokenizer()
    chat()
    body()
    http()
    jinja()
    trace()
    program(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "bin" / "serval"))


if __name__ == "__main__":
    main()
