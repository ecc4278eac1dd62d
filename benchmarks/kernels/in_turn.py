"""Times functions that begin work on the current GPU, in turn."""

import statistics

import torch


def milliseconds(work, times):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times


def in_turn(works, rounds, timed_ms, lead_in_ms=0):
    """The median milliseconds of each. In each round all run, every second round in reverse order, for timed_ms each. With
    lead_in_ms, each runs so long before it is timed, so that its own power sets the clocks."""
    once = []
    for work in works:
        milliseconds(work, 3)
        once.append(milliseconds(work, 3))
    times = [[] for _ in works]
    for turn in range(rounds):
        order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
        for i in order:
            if lead_in_ms:
                for _ in range(int(lead_in_ms / once[i]) + 1):
                    works[i]()
            times[i].append(milliseconds(works[i], int(timed_ms / once[i]) + 1))
    return [statistics.median(of_work) for of_work in times]
