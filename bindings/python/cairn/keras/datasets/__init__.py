"""keras.datasets: ((x, y), (x, y)) as numpy's arrays (tensors where numpy is missing).

Files come from a path, from Keras's folder (~/.keras/datasets) or, for images, from a folder of raw files: "data" where
the program runs, or what the variable CAIRN_DATA names.
"""
from . import (boston_housing as boston_housing, california_housing as california_housing, cifar10 as cifar10,
               cifar100 as cifar100, digits as digits, fashion_mnist as fashion_mnist, imdb as imdb, mnist as mnist,
               reuters as reuters)

__all__ = ["boston_housing", "california_housing", "cifar10", "cifar100", "digits", "fashion_mnist", "imdb", "mnist",
           "reuters"]
