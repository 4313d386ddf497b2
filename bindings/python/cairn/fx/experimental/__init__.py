"""Parts of torch.fx that PyTorch calls experimental: of those, optimization, and questions about sizes."""
