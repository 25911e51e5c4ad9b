"""The convolutions of ResNet-18 and MobileNet by their default schedules on one thread, beside the peak and other runtimes.

    python benchmarks/cpu_convolutions.py [--repeat N] [--only TEXT] [--json FILE] [--cpu NAME] [--peers NAME ...]

The layers are C1 to C12 and D1 to D9 of Chen et al., "TVM" (OSDI 2018), table 2, each with bias and relu. Ours have channels in
