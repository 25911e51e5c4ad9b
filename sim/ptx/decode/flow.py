"""Control flow: where the lanes of a divergent branch meet again."""


def meeting_points(successors: list[list[int]]) -> list[int]:
    """Return the immediate post-dominator of each instruction, -1 where only the exit is one.

    The exit is number `len(successors)`. The algorithm is that of Cooper, Harvey and Kennedy, on the graph turned round.
    """
    count = len(successors)
    leave = count
    before: list[list[int]] = [[] for _ in range(count + 1)]  # edges of the turned graph, from the exit on
    for at, targets in enumerate(successors):
        for target in targets:
            before[target].append(at)
    order = _postorder(before, leave)
    position = {node: number for number, node in enumerate(order)}
    found = {leave: leave}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            best = -1
            for target in successors[node]:
                if target in found:
                    best = target if best < 0 else _common(found, position, best, target)
            if best >= 0 and found.get(node) != best:
                found[node] = best
                changed = True
    return [-1 if found.get(at, leave) == leave else found[at] for at in range(count)]


def _postorder(edges: list[list[int]], start: int) -> list[int]:
    order, seen = [], {start}
    stack = [(start, iter(edges[start]))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(edges[target])))
                break
        else:
            stack.pop()
            order.append(node)
    return order


def _common(found: dict[int, int], position: dict[int, int], a: int, b: int) -> int:
    while a != b:
        while position[a] < position[b]:
            a = found[a]
        while position[b] < position[a]:
            b = found[b]
    return a


def used_on_all_ways(start: int, register: int, successors: list[list[int]], uses: list[set[int]], defs: list[set[int]]) -> bool:
    """Return whether every way from behind an instruction reads a register before the kernel ends or writes it anew.

    If not, a compiler may have moved the instruction before the branch that decides about it.
    """
    seen: set[int] = set()
    todo = list(successors[start])
    while todo:
        at = todo.pop()
        if at in seen or (at < len(uses) and register in uses[at]):
            continue
        if at >= len(uses) or register in defs[at]:
            return False
        seen.add(at)
        todo += successors[at]
    return True
