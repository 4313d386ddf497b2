"""Newton's method with second derivatives from create_graph; a Hessian by rows; a root of a cubic."""
import torch


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


p = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
for step in range(8):
    value = rosenbrock(p)
    grad, = torch.autograd.grad(value, p, create_graph=True)
    hessian = torch.stack([torch.autograd.grad(grad[i], p, retain_graph=True)[0] for i in range(2)])
    move = torch.linalg.solve(hessian, grad.detach())
    print(step, value.item(), grad.tolist(), hessian.tolist())
    p = (p.detach() - move).requires_grad_(True)
print("minimum", p.tolist())

x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
for step in range(6):
    f = x ** 3 - 2 * x - 5
    df, = torch.autograd.grad(f, x)
    x = (x - f / df).detach().requires_grad_()
print("root", x.item())

t = torch.linspace(0.1, 1.0, 4, dtype=torch.float64, requires_grad=True)
y = torch.sin(t) * torch.exp(-t)
for order in range(1, 4):
    y, = torch.autograd.grad(y.sum(), t, create_graph=True)
    print("derivative", order, y.tolist())
