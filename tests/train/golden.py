#!/usr/bin/env python3
"""Makes tests/train/metrics.json: scores and classes at random, and what scikit-learn and PyTorch make of them.

usage: build/peers/bin/python tests/train/golden.py      (needs numpy, scikit-learn and PyTorch)
"""
import json
import pathlib

import numpy as np
import sklearn.metrics as sk
import torch

HERE = pathlib.Path(__file__).resolve().parent


def classes_case(rng, n, classes, absent=(), never_said=()):
    """Scores (n, classes) that lean to the truth; some classes never occur, some are never predicted."""
    present = [c for c in range(classes) if c not in absent]
    target = rng.choice(present, n)
    scores = rng.normal(size=(n, classes)).astype(np.float32)
    scores[np.arange(n), target] += 1
    scores[:, list(absent) + list(never_said)] -= 20
    scores = np.round(scores, 3)
    said = scores.argmax(1)
    want = {"accuracy": sk.accuracy_score(target, said)}
    for average in ("macro", "micro", "weighted"):
        for name, of in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            want[f"{name} {average}"] = of(target, said, average=average, zero_division=0)
    want["mean_iou"] = sk.jaccard_score(target, said, average="macro", zero_division=0)
    want["confusion"] = sk.confusion_matrix(target, said, labels=range(classes)).ravel().tolist()
    for k in (1, 2, 3):
        best = torch.from_numpy(scores).topk(k, 1).indices.numpy()
        want[f"top{k}"] = float((best == target[:, None]).any(1).mean())
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(scores.astype(np.float64)), torch.from_numpy(target))
    want["perplexity"] = float(loss.exp())
    return {"classes": classes, "scores": scores.astype(float).round(3).tolist(), "target": target.tolist(), "want": want}


def auc_case(rng, n, levels):
    """Scores of few levels have many ties."""
    truth = rng.integers(0, 2, n)
    score = np.round(rng.integers(0, levels, n) / levels + truth * 0.2, 4)
    return {"scores": score.tolist(), "target": truth.tolist(), "want": sk.roc_auc_score(truth, score)}


def main():
    rng = np.random.default_rng(7)
    cases = {
        "classes": [classes_case(rng, 60, 4), classes_case(rng, 50, 6, absent=(2,)),
                    classes_case(rng, 40, 5, absent=(4,), never_said=(0,)), classes_case(rng, 30, 3)],
        "auc": [auc_case(rng, 50, 1000), auc_case(rng, 60, 5), auc_case(rng, 30, 2)],
    }
    (HERE / "metrics.json").write_text(json.dumps(cases) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
