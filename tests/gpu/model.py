# A few steps of gradient descent on a GPU. Everything is made of whole numbers that doubles hold exactly, so that the order of
# additions does not matter.
import sys

import torch

if not torch.cuda.is_available():
    print("torch finds no GPU")
    sys.exit(77)

torch.manual_seed(0)
device = torch.device("cuda")
inputs = torch.randint(-3, 4, (256, 64)).double().to(device)
targets = torch.randint(-3, 4, (256, 8)).double().to(device)
weights = torch.zeros(64, 8, device=device, dtype=torch.float64, requires_grad=True)
for step in range(3):
    loss = ((inputs @ weights - targets) ** 2).sum()
    loss.backward()
    with torch.no_grad():
        # Signs alone, so that the weights stay whole numbers.
        weights -= weights.grad.sign()
        weights.grad.zero_()
    print(step, int(loss.item()), int(weights.sum().item()))
pinned = torch.arange(1000).pin_memory()
print(int(pinned.to(device, non_blocking=True).sum().item()), pinned.is_pinned())
