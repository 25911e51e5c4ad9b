"""What the benches of steps and arithmetic share: random DWCONVs, and what their windows hold."""

from vtakit.hw.values import wrap


def random_window(cfg, pick, *, legal=False):
    """Rows and columns of few steps; operands at the end of their scratchpads now and then, beyond it unless `legal`."""
    f = {"rows": pick.choice([1, 2, 3, 5]), "columns": pick.choice([0, 1, 2, 3, 6]), "overwrite": pick.randrange(2)}
    f |= {name: pick.randrange(4) for name in ("y_first", "x_first", "y_step", "x_step")}
    for name in ("dst", "src"):
        depth = cfg.acc_depth if name == "dst" else cfg.inp_depth
        f |= {f"{name}_row": pick.randrange(depth // 8), f"{name}_column": pick.randrange(max(2, depth // 16))}
        reach = (f["rows"] - 1) * f[f"{name}_row"] + f["columns"] * f[f"{name}_column"]
        while legal and reach >= depth:
            f[f"{name}_row"], f[f"{name}_column"] = f[f"{name}_row"] // 2, f[f"{name}_column"] // 2
            reach = (f["rows"] - 1) * f[f"{name}_row"] + f["columns"] * f[f"{name}_column"]
        f[name] = pick.randrange(depth - reach) if legal else pick.randrange(depth if pick.randrange(3) == 0 else depth // 4)
    return f | {"wgt": pick.randrange(cfg.wgt_depth)}


class Taken:
    """The tiles that the steps of one DWCONV have taken, and the sums over the window of the last."""

    def __init__(self, cfg):
        self.cfg, self.tiles, self.across = cfg, [], 1

    def sums(self, step, inp, wgt):
        """Take the tile of a step: [batch, block]."""
        if step["first"]:
            self.tiles = []
        self.tiles.append(inp[step["src"]])
        self.across = max(step["column"] + 1, 1 if step["first"] else self.across)
        rows, columns = self.cfg.window
        total = 0 * inp[step["src"]]
        for tap in range(rows * columns):
            back = (rows - 1 - tap // columns) * self.across + columns - 1 - tap % columns
            if back < len(self.tiles):
                total = total + self.tiles[-1 - back] * wgt[step["wgt"]][:, tap]
        return wrap(total, self.cfg.acc_bits)
