#!/usr/bin/env python3
"""Compares Serval's logits with those of Hugging Face transformers, computed from the same files.

    tests/parity/parity.py                                        # the bundled model, its default text
    tests/parity/parity.py --model path/to/Llama-3.2-1B --text article.txt -n 1024
    tests/parity/parity.py --preset llama-3.2-1b --random-weights 1

Needs torch and transformers; exits with 77 where they are not installed. `serval verify --dump` computes our side. The
measures and the gate are those of `serval verify`: means, over teacher-forced positions, of the relative error and the
KL divergence against transformers' fp32 pass, ours at most 1.05 times those of transformers' own bf16 pass. Where
Serval was built with LibTorch, its reference's fp32 logits must be transformers' too. Exits with 1 outside a limit.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
    from safetensors.numpy import load_file
except ImportError as missing:
    print(f"parity: SKIPPED, {missing.name} is not installed (pip install torch transformers)", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUNDLED = ROOT / "assets" / "serval-stories"
GATE = 1.05
REFERENCE_LIMIT = 1e-4  # mean relative error between two fp32 passes that sum in different orders
EXIT_OUTSIDE = 1


def dump_logits(args, model, path):
    """Runs serval verify; returns its tensors: tokens, ours and, with LibTorch, reference.fp32."""
    command = [args.serval, "verify", "-m", model, "-n", args.positions, "-c", max(args.positions, args.context)]
    command += ["--dump", path, "--backend", args.backend]
    if args.text:
        command += ["--text", args.text]
    elif not (model / "tokenizer.json").exists():
        command += ["--random-tokens", args.random_weights or 0]
    if args.ours_only:
        command += ["--ours-only"]
    if args.max_batch_tokens:
        command += ["--max-batch-tokens", args.max_batch_tokens]
    if args.batch_size:
        command += ["--batch-size", args.batch_size]
    if args.gpus:
        command += ["--gpus", args.gpus]
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    # verify may exit with an error for its own limits, which do not matter here. With --ours-only it has none, so an
    # error means that sequences of a batch differ.
    if result.returncode != 0 and (args.ours_only or not path.exists()):
        sys.exit(result.returncode)
    return load_file(path)


def forward(model, tokens, dtype, args):
    network = transformers.AutoModelForCausalLM.from_pretrained(
        model, dtype=dtype, attn_implementation=args.attention
    ).eval()
    with torch.inference_mode():
        return network(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].float().numpy()


def log_softmax(x):
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def compare(got, reference):
    relative, kl, same = [], [], []
    for a, b in zip(got, reference):
        a, b = a.astype(np.float64), b.astype(np.float64)
        relative.append(np.linalg.norm(a - b) / np.linalg.norm(b))
        log_p, log_q = log_softmax(b), log_softmax(a)
        distance = log_p - log_q
        kl.append((np.exp(log_p) * (distance + np.expm1(-distance))).sum())  # no cancellation between terms
        same.append(a.argmax() == b.argmax())
    worst = int(np.argmax(kl))
    return {
        "mean_relative_error": float(np.mean(relative)),
        "mean_kl_divergence": float(np.mean(kl)),
        "top1_agreement": float(np.mean(same)),
        "worst_position": worst,
        "worst_kl_divergence": float(kl[worst]),
    }


def report_on(args, model, scratch):
    ours = dump_logits(args, model, scratch / "logits.safetensors")
    fp32 = forward(model, ours["tokens"], torch.float32, args)
    report = {
        "model": model.name,
        "positions": len(ours["tokens"]),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "attention": args.attention,
        "ours": compare(ours["ours"], fp32),
    }
    if "reference.fp32" in ours:
        report["libtorch_fp32"] = compare(ours["reference.fp32"], fp32)
    report["transformers_bf16"] = compare(forward(model, ours["tokens"], torch.bfloat16, args), fp32)
    report["ratio"] = {
        figure: report["ours"][figure] / report["transformers_bf16"][figure]
        for figure in ("mean_relative_error", "mean_kl_divergence")
    }
    report["passed"] = all(ratio <= GATE for ratio in report["ratio"].values()) and (
        "libtorch_fp32" not in report or report["libtorch_fp32"]["mean_relative_error"] <= REFERENCE_LIMIT
    )
    return report


def print_table(report):
    print(f"{report['model']}, {report['positions']} positions, transformers {report['transformers']} "
          f"(torch {report['torch']}, {report['attention']} attention)")
    print(f"{'against its fp32 pass':<24}{'relative error':>16}{'KL divergence':>16}{'top-1':>10}{'worst':>8}")
    for name in ("ours", "libtorch_fp32", "transformers_bf16"):
        if name not in report:
            continue
        figures = report[name]
        print(f"{name:<24}{figures['mean_relative_error']:>16.4e}{figures['mean_kl_divergence']:>16.4e}"
              f"{100 * figures['top1_agreement']:>8.2f} %{figures['worst_position']:>8}")
    print(f"{'ratio':<24}{report['ratio']['mean_relative_error']:>16.3f}{report['ratio']['mean_kl_divergence']:>16.3f}")
    print(f"{'within' if report['passed'] else 'OUTSIDE'} the gate of {GATE}")


def make_checkpoint(args, folder):
    tool = ROOT / "tools" / "make_checkpoint.py"
    command = [sys.executable, "-B", tool, args.preset, folder, "--seed", str(args.random_weights)]
    subprocess.run(command + [part for setting in args.set for part in ("--set", setting)], check=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serval", default=os.environ.get("SERVAL_TEST_PROGRAM", ROOT / "build" / "bin" / "serval"))
    parser.add_argument("--model", type=pathlib.Path, default=BUNDLED, help="a Hugging Face directory")
    parser.add_argument("--preset", default="tiny", help="with --random-weights: a preset, or tiny")
    parser.add_argument("--random-weights", type=int, metavar="SEED", help="a checkpoint that tools/make_checkpoint.py makes")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=JSON", help="changes that checkpoint's config.json")
    parser.add_argument("-n", "--positions", type=int, default=256)
    parser.add_argument("-c", "--context", type=int, default=0, help="default: as many as positions")
    parser.add_argument("--text", help="a file. Default: serval's own, or random tokens where there is no tokenizer")
    parser.add_argument("--backend", default="auto", help="what computes our side")
    parser.add_argument("--max-batch-tokens", type=int, metavar="N", help="of a pass on our side: as serval verify's")
    parser.add_argument("--batch-size", type=int, metavar="N", help="sequences that decode on our side: as serval verify's")
    parser.add_argument("--gpus", metavar="N", help="that share the model on our side: as serval verify's")
    parser.add_argument("--attention", default="sdpa", choices=["sdpa", "eager"], help="transformers' implementation")
    parser.add_argument("--ours-only", action="store_true", help="leave Serval's own LibTorch reference out")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="serval-parity-") as scratch:
        scratch = pathlib.Path(scratch)
        model = args.model if args.random_weights is None else make_checkpoint(args, scratch / args.preset)
        report = report_on(args, model, scratch)
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        print_table(report)
    sys.exit(0 if report["passed"] else EXIT_OUTSIDE)


if __name__ == "__main__":
    main()
