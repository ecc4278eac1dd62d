"""Runs the tasks of this folder with lm-eval, and reads its results. Needs lm-eval 0.4.13 or later."""

import os
import statistics
from pathlib import Path

import lm_eval
from lm_eval.tasks import TaskManager

TASKS = Path(__file__).resolve().parent / "tasks"

LIKELIHOODS = ["serval_choice", "serval_rolling"]
GATE = 1.05  # as tests/parity/parity.py


def evaluate(model, tasks, arguments, **more):
    """Returns lm-eval's results. The tasks' files are found from their folder."""
    folder = os.getcwd()
    os.chdir(TASKS)
    try:
        return lm_eval.simple_evaluate(model=model, model_args=arguments, tasks=tasks, task_manager=TaskManager(include_path=str(TASKS), include_defaults=False),
                                       log_samples=True, bootstrap_iters=0, random_seed=None, numpy_random_seed=None, torch_random_seed=None, **more)
    finally:
        os.chdir(folder)


def scores(results):
    """The metrics of each task, without their names for people."""
    return {task: {name: value for name, value in found.items() if isinstance(value, float)} for task, found in results["results"].items()}


def answers(results, task):
    """What the model answered to each document, in their order."""
    return [sample["resps"] for sample in sorted(results["samples"][task], key=lambda sample: sample["doc_id"])]


def likelihoods(results):
    """All log-likelihoods, in the order of tasks and documents."""
    found = []
    for task in LIKELIHOODS:
        for document in answers(results, task):
            for (answer,) in document:
                found.append(float(answer[0] if isinstance(answer, (tuple, list)) else answer))
    return found


def mean_distance(a, b):
    return statistics.fmean(abs(one - other) for one, other in zip(a, b, strict=True))
