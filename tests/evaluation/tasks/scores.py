"""The generative tasks' metric: whether a text has the word that is looked for."""


def contains(references, predictions):
    return float(all(reference in prediction for reference, prediction in zip(references, predictions)))
