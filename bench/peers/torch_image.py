"""torchvision's side of image.c: a photograph decoded, cropped, resized, turned over and normalised."""
import torch
from torch_side import Case, fill, serve
from torchvision.io import decode_jpeg, encode_jpeg
from torchvision.transforms.v2 import functional as F

HEIGHT, WIDTH = 375, 500


def picture():
    c = torch.arange(3, dtype=torch.float64).view(3, 1, 1)
    y = torch.arange(HEIGHT, dtype=torch.float64).view(1, HEIGHT, 1)
    x = torch.arange(WIDTH, dtype=torch.float64).view(1, 1, WIDTH)
    waves = 128 + 60 * torch.sin(x / (7 + 3 * c) + y / 11) + 40 * torch.sin(x * y / (900 + 100 * c))
    return (waves + fill((3, HEIGHT, WIDTH), 1, 10.0)).clamp(0, 255).to(torch.uint8)


def photograph():
    return [encode_jpeg(picture(), quality=90)]


def augment(file):
    image = F.resized_crop(decode_jpeg(file), 30, 60, 300, 350, [224, 224], antialias=True)
    image = F.to_dtype(F.horizontal_flip(image), torch.float32, scale=True)
    return F.normalize(image, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


if __name__ == "__main__":
    serve([Case("jpeg_decode", "image", 1, photograph, decode_jpeg, variants=("eager",)),
           Case("jpeg_augment", "image", 1, photograph, augment, variants=("eager",))])
