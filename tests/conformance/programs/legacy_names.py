"""Names from older days: FloatTensor and its kin, Variable, new, resize_as_, apply_, storages, default types."""
import torch
import torch.nn as nn
from torch.autograd import Variable

x = torch.FloatTensor([[1, 2, 3], [4, 5, 6]])
y = torch.LongTensor([1, 2, 3])
print(torch.Tensor(5, 3).size(), x, x.type())
print(y, y.type(), y.dtype, torch.LongTensor(2, 3).shape, torch.ByteTensor([1, 0, 255]))
print(torch.DoubleTensor([1.5]), torch.BoolTensor([True, False]), torch.HalfTensor([1.0]), torch.ShortTensor([3]))
for kind in (torch.FloatTensor, torch.LongTensor, torch.Tensor):
    print(isinstance(x, kind), isinstance(y, kind))
print(x.type(torch.LongTensor), x.type("torch.DoubleTensor").dtype, x.type(torch.float64).type())

dtype = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
print(torch.ones(3).type(dtype).cpu())

v = Variable(torch.ones(2, 2), requires_grad=True)
w = Variable(torch.Tensor([[1.0, 2.0], [3.0, 4.0]]))
out = (v * w).sum()
out.backward()
print(v.grad.data, isinstance(v, Variable), out.data)

print(x.new(2, 2).zero_(), x.new([1, 2]), x.new().shape, y.new([4, 5]), x.new(torch.Size([2, 1])).shape)
u = torch.Tensor([1, 2, 3])
print(u.resize_(1, 3), u.resize_as_(torch.zeros(3, 1)))
r = torch.zeros(2, 3)
print(r.apply_(lambda a: a + 2), r.map_(torch.ones(2, 3), lambda a, b: a * 10 + b))
print(torch.is_nonzero(torch.tensor([1.0])), torch.tensor([0]).is_nonzero())

torch.set_default_tensor_type(torch.DoubleTensor)
print(torch.ones(1).dtype, torch.tensor([1.0]).dtype, torch.Tensor([1]).dtype)
torch.set_default_tensor_type("torch.FloatTensor")
print(torch.ones(1).dtype)

p = nn.Linear(2, 2)
p.weight.data.fill_(0.5)
p.bias.data.zero_()
p.weight.data = p.weight.data * 2
print(p.weight, p(torch.ones(1, 2)).data)

t = torch.arange(6.0)
print(t.storage().size(), t.untyped_storage().nbytes(), len(t[2:].storage()), t.storage()[2])
print(t.untyped_storage().data_ptr() == t[2:].untyped_storage().data_ptr(), t[2:].storage_offset())
print(torch.relu_(torch.tensor([-1.0, 2.0])), torch.clamp_(torch.tensor([5.0]), max=2), torch.sigmoid_(torch.zeros(1)))
