"""The VTA accelerator: its instruction set (`hw.isa`, standard library only) and its RTL in Amaranth.

It is a decoupled access-execute machine: loading, computing and storing are three processors with an instruction stream each,
which run ahead of one another as far as the data allow::

                            Fetch (fetch, decoder)
                  ┌────────────────┼────────────────┐           a command queue each
              LoadStage ══ 2 ══ ComputeStage ══ 2 ══ StoreStage     ══ token queues, one each way
                  │  INP, WGT      │  UOP, ACC       │
                  └─── ReadMaster ─┴─(AXI4)  (AXI4)─ WriteMaster

- `Fetch` reads the program and hands each instruction to the stage that runs it. Stages keep no other order among them than
  *tokens* make: an instruction with a pop flag starts once its queue gives a token, one with a push flag puts one there when
  all it wrote can be read. The compiler places the flags, so a load into one half of a scratchpad runs while the other half is
  computed on; the hardware never looks for hazards between stages.
- Within a stage `Issue` starts instructions in order and `Retire` ends them in order; several may be under way.
- A LOAD: `LoadPort` splits its rows into bursts (`BurstGenerator`), asks memory for those that `ReadBuffer` has room for, and
  `LoadWriter` puts the beats that come back, or zeros for pads, into a scratchpad as `LoadPlanner` says, piece by piece.
- A GEMM or ALU instruction: `StepGenerator` walks its two loops and its micro-ops, a step a cycle; `Arithmetic` reads the
  tiles of a step, multiplies (`MacArray`) or works on lanes (`Alu`), and writes the accumulator some cycles later. Results on
  their way are handed to the steps that need them. A DWCONV's steps bring a tile each into `Window`, whose taps are multiplied.
- A STORE reads accumulator elements (`StorePort`, in the order of `Walk`), narrows them (`Narrower`; a REQUANT scales them first,
  `Requantizer`), joins them to beats, and `WriteMaster` sends these; it retires when memory has answered.
- `Core` joins the stages, tells the program's end from a deadlock, and names the first fault. `Top` adds the host's registers
  (`Registers`), counters, and `Supervisor`, which stops the core cleanly and sets it back.

Rooms: `fetch`, `load`, `compute`, `store`, each with the blocks of a stage; `issue`, what stages share; `memory`, AXI4 and
scratchpads; `control`, the host's registers and counters. `core` joins them, `top` is the whole.

To read it: `isa` for what instructions mean; `interfaces` and `pipeline` for the words of this hardware; `load.stage` with what
it instantiates; `compute.stage`, `compute.steps`, `compute.arithmetic`; `store.stage`; `core`, `top`. `params` has all that can
be chosen, `timing` the depths and latencies that decide cycles.
"""
