"""Run what the extra `torch` promises; `python torch_job.py` in an empty folder."""

import numpy as np
import torch
from steps import command, step

import vtakit

with step("a program of torch.export, as an object and as a file"):
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    x = torch.arange(8, dtype=torch.float32).reshape(2, 4)
    exported = torch.export.export(net, (x,))
    module = vtakit.compile(exported)
    (name,) = module.inputs
    (found,) = module.run({name: x.numpy()}).values()
    np.testing.assert_allclose(found, net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    torch.export.save(exported, "net.pt2")
    np.savez("in.npz", **{name: x.numpy()})
    command("vtakit", "run", "net.pt2", "--input", "in.npz", "--output", "out.npz")
    with np.load("out.npz") as out:
        np.testing.assert_allclose(next(iter(out.values())), found)
