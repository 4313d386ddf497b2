"""Numpy and tensors over the same memory, both ways."""
import copy
import pickle

import numpy as np
import torch

a = np.arange(12, dtype=np.float32).reshape(3, 4)
t = torch.from_numpy(a)
t[0, 0] = 100
a[2, 3] = -1
print(a[0, 0], t[2, 3].item(), t.dtype, t.shape)
s = torch.from_numpy(a[:, ::2].T)
print(s.stride(), s.is_contiguous(), s.tolist())
n = s.numpy()
n += 1
print(a.tolist(), n.strides, n.dtype)
c = torch.tensor(a)
a[:] = 0
print(c.sum().item(), t.sum().item())
print(np.asarray(c).mean(), np.sum(c.numpy()), torch.as_tensor(a).sum().item())
print((c.numpy() * 2 + np.ones(4)).tolist(), (torch.tensor(2.0) * c).sum().item())
for dtype in (np.float64, np.float16, np.int32, np.int64, np.uint8, np.bool_):
    back = torch.from_numpy(np.array([0, 1, 2]).astype(dtype))
    print(back.dtype, back.numpy().dtype, back.tolist())
print(torch.tensor(np.float32(1.5)).dtype, torch.tensor([np.int64(3), np.int64(4)]).dtype, torch.tensor(1.5).numpy())
print(np.from_dlpack(c).shape, torch.from_dlpack(np.ones(3)).tolist())
w = torch.tensor([1.0, 2.0], requires_grad=True)
print(w.detach().numpy().tolist(), copy.deepcopy(w).requires_grad, pickle.loads(pickle.dumps(c)).equal(c))
