"""The scheduler of tasks: trials go where the whole gains."""

from vtakit.compiler.tune.scheduler import Progress, Scheduler


def run(costs, weights, trials, patience=None):
    """The number of trials that each task gets; `costs` gives the cost of a task's n-th trial."""
    tasks = [Progress(str(at), weight) for at, weight in enumerate(weights)]
    scheduler = Scheduler(tasks, patience)
    for _ in range(trials):
        at = scheduler.next()
        if at is None:
            break
        tasks[at].add(costs[at](tasks[at].trials))
    return [each.trials for each in tasks], scheduler


def test_each_task_has_a_first_turn():
    counts, _ = run([lambda n: 1.0] * 3, [1, 1, 1], 3)
    assert counts == [1, 1, 1]


def test_the_costlier_task_gets_more():
    counts, _ = run([lambda n: 1000.0, lambda n: 10.0], [1, 1], 100)
    assert counts[0] > 5 * counts[1]


def test_weight_counts_like_cost():
    counts, _ = run([lambda n: 10.0, lambda n: 10.0], [20, 1], 100)
    assert counts[0] > 5 * counts[1]


def test_a_task_that_gains_gets_more_than_one_that_does_not():
    counts, scheduler = run([lambda n: 100.0 - n, lambda n: 100.0], [1, 1], 60)
    assert counts[0] > 2 * counts[1]
    assert abs(scheduler.gain - (counts[0] - 1) / 200) < 1e-9


def test_a_task_without_gain_for_long_is_done():
    counts, scheduler = run([lambda n: 5.0, lambda n: 7.0], [1, 1], 100, patience=10)
    assert counts == [10, 10]
    assert scheduler.next() is None


def test_failures_count_as_trials():
    task = Progress("t")
    for cost in (None, 4.0, None, 3.0, 5.0):
        task.add(cost)
    assert (task.trials, task.first, task.best, task.idle) == (5, 4.0, 3.0, 2)
    assert task.costs == [None, 4.0, 4.0, 3.0, 3.0]
