"""Data sets: those inside the library, its readers of files, and torchvision's classes on them.

A sample is (image or row as a tensor, class as an int). Images are (channels, height, width); those of MNIST, CIFAR
and folders are uint8 until a transform (transforms.ToTensor) makes floats of them; a function of the program's own
that comes before gets one of Pillow's images, as from torchvision, where Pillow is installed. A DataLoader runs these
data sets in the library's own threads, also with transforms, as long as those are the library's too.
"""
from . import folder as folder, mnist as mnist, vision as vision
from ._native import NativeDataset, cifar, csv, digits, idx, tensors, tokens
from ._cifar import CIFAR10, CIFAR100
from .fakedata import FakeData
from .folder import DatasetFolder, ImageFolder
from .mnist import EMNIST, FashionMNIST, KMNIST, MNIST, QMNIST
from .stl10 import STL10
from .svhn import SVHN
from .usps import USPS
from .vision import VisionDataset

image_folder = ImageFolder

__all__ = ["CIFAR10", "CIFAR100", "DatasetFolder", "EMNIST", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST",
           "MNIST", "NativeDataset", "QMNIST", "STL10", "SVHN", "USPS", "VisionDataset", "cifar", "csv", "digits",
           "idx", "image_folder", "tensors", "tokens"]
